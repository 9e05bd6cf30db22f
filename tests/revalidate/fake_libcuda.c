/* A libcuda that does what FAKE_CUDA says: just enough of the driver for ptxkit.revalidation.driver. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUCCESS 0
#define NO_DEVICE 100
#define NO_CONTEXT 201
#define INVALID_PTX 218
#define NO_COMPILER 221

static int is(const char *what) { const char *mode = getenv("FAKE_CUDA"); return mode && !strcmp(mode, what); }

int cuInit(unsigned flags) {
    (void)flags;
    if (is("hang in cuInit")) for (;;) pause();
    return is("no device") ? NO_DEVICE : SUCCESS;
}
int cuDriverGetVersion(int *version) { *version = 13000; return SUCCESS; }
int cuDeviceGetCount(int *count) { *count = 1; return SUCCESS; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return SUCCESS; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { (void)device; *value = attribute == 75 ? 9 : 0; return SUCCESS; }
int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = (void *)1; return SUCCESS; }
int cuDevicePrimaryCtxRelease(int device) { (void)device; return SUCCESS; }
int cuCtxPushCurrent(void *context) { return context ? SUCCESS : NO_CONTEXT; }
int cuCtxPopCurrent(void **context) { *context = (void *)1; return SUCCESS; }

static int load(const char *image, unsigned count, const int *options, void **values) {
    char *errors = 0, *info = 0;
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == 3) info = values[i];
        if (options[i] == 5) errors = values[i];
    }
    printf("noise on standard output\n");
    fflush(stdout);
    if (is("abort")) abort();
    if (is("segfault")) raise(SIGSEGV);
    if (is("hang")) for (;;) pause();
    if (is("exit")) exit(0);
    if (is("no compiler")) return NO_COMPILER;
    if (is("error without a log")) return INVALID_PTX;
    if (is("bug")) { strcpy(errors, "ptxas fatal   : (C7907) Internal compiler error\n"); return INVALID_PTX; }
    if (is("false success")) { strcpy(errors, "error   : Undefined reference to 'ext' in 'in.ptx'\n"); return SUCCESS; }
    if (strstr(image, "%r99")) {
        strcpy(errors, "ptxas application ptx input, line 7; error   : Unknown symbol '%r99'\n"
                       "ptxas fatal   : Ptx assembly aborted due to errors");
        return INVALID_PTX;
    }
    strcpy(info, "ptxas info    : 0 bytes gmem\nptxas info    : Compiling entry function 'k' for 'sm_90'\n"
                 "ptxas info    : Function properties for k\n"
                 "ptxas         .     0 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads\n"
                 "ptxas info    : Used 12 registers, used 1 barriers, 360 bytes cmem[0]");
    return SUCCESS;
}
int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options, void **values) {
    *module = (void *)2;
    return load(image, count, options, values);
}
int cuModuleUnload(void *module) { (void)module; return SUCCESS; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    (void)module;
    *function = (void *)3;
    return strcmp(name, "missing") ? SUCCESS : 500;
}
int cuFuncGetAttribute(int *value, int attribute, void *function) { (void)function; *value = 100 + attribute; return SUCCESS; }

struct entry { const char *name; void *function; };
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);
int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, 0);
}
#define E(name) {#name, (void *)name}
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    static const struct entry table[] = {
        E(cuInit), E(cuDriverGetVersion), E(cuDeviceGetCount), E(cuDeviceGet), E(cuDeviceGetAttribute), E(cuDevicePrimaryCtxRetain),
        E(cuDevicePrimaryCtxRelease), E(cuCtxPushCurrent), E(cuCtxPopCurrent), E(cuModuleLoadDataEx), E(cuModuleUnload),
        E(cuModuleGetFunction), E(cuFuncGetAttribute), {"cuGetProcAddress", (void *)cuGetProcAddress_v2},
    };
    (void)version; (void)flags;
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
        if (!strcmp(name, table[i].name)) {
            *function = table[i].function;
            if (status) *status = 0;
            return SUCCESS;
        }
    }
    *function = 0;
    if (status) *status = 1;
    return 500;
}
