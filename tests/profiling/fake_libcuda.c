/* A libcuda whose device memory is the host's, and which writes down how a kernel was launched: to see that cuda-python is called right.
   A kernel called kN has N parameters of 8 bytes; it is "run" by adding 1 to the first byte that the first of them points to. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int id; char pad[4]; unsigned value[16]; } attribute;
typedef struct { unsigned grid[3], block[3], shared; void *stream; attribute *attributes; unsigned count; } config;

static FILE *out(void) { static FILE *file; if (!file) file = fopen(getenv("FAKE_CUDA_LOG"), "a"); return file; }

int cuInit(unsigned flags) { return flags ? 1 : 0; }
int cuDriverGetVersion(int *version) { *version = 12090; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int size, int device) { (void)device; snprintf(name, size, "fake"); return 0; }
int cuDeviceGetAttribute(int *value, int kind, int device) { (void)device; *value = kind == 75 ? 9 : 0; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = (void *)1; return 0; }
int cuCtxGetCurrent(void **context) { *context = 0; return 0; }
int cuCtxSetCurrent(void *context) { return context ? 0 : 201; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options, void **values) {
    *module = (void *)2;
    if (!strstr(image, "bad")) return 0;
    for (unsigned i = 0; i < count; i++) if (options[i] == 5) strcpy(values[i], "line 3; error : bad");
    return 218;
}
int cuModuleUnload(void *module) { return module == (void *)2 ? 0 : 1; }
static char names[8][32];
int cuModuleGetFunction(void **function, void *module, const char *name) {
    static int count;
    (void)module;
    snprintf(names[count], 32, "%s", name);
    *function = names[count++];
    return 0;
}
static uint64_t variable[8];
int cuModuleGetGlobal(uintptr_t *address, size_t *size, void *module, const char *name) {
    if (module != (void *)2 || strcmp(name, "words")) return 500;
    *address = (uintptr_t)variable;
    if (size) *size = sizeof variable;
    return 0;
}
int cuLibraryGetGlobal(uintptr_t *address, size_t *size, void *library, const char *name) {
    return cuModuleGetGlobal(address, size, library, name);
}
int cuFuncGetAttribute(int *value, int kind, void *function) { (void)function; *value = 100 + kind; return 0; }
int cuFuncSetAttribute(void *function, int kind, int value) { (void)function; fprintf(out(), "set %d %d\n", kind, value); return 0; }
int cuMemAlloc(uintptr_t *address, size_t size) { *address = (uintptr_t)malloc(size); return 0; }
int cuMemFree(uintptr_t address) { free((void *)address); return 0; }
int cuMemcpyHtoD(uintptr_t to, const void *from, size_t size) { memcpy((void *)to, from, size); return 0; }
int cuMemcpyDtoH(void *to, uintptr_t from, size_t size) { memcpy(to, (void *)from, size); return 0; }
int cuMemcpyDtoD(uintptr_t to, uintptr_t from, size_t size) { memcpy((void *)to, (void *)from, size); return 0; }
int cuMemHostAlloc(void **address, size_t size, unsigned flags) { *address = calloc(1, size); return flags == 2 ? 0 : 1; }
int cuMemHostGetDevicePointer(uintptr_t *device, void *host, unsigned flags) { (void)flags; *device = (uintptr_t)host; return 0; }
int cuMemFreeHost(void *address) { free(address); return 0; }
int cuEventCreate(void **event, unsigned flags) { (void)flags; *event = malloc(1); return 0; }
int cuEventRecord(void *event, void *stream) { (void)stream; return event ? 0 : 1; }
int cuEventSynchronize(void *event) { return event ? 0 : 1; }
int cuEventElapsedTime(float *milliseconds, void *first, void *last) { *milliseconds = first != last ? 2.5f : 0; return 0; }
int cuLaunchKernelEx(const config *how, void *function, void **parameters, void **extra) {
    const char *name = function;
    fprintf(out(), "%s grid %u %u %u block %u %u %u shared %u", name, how->grid[0], how->grid[1], how->grid[2], how->block[0], how->block[1],
            how->block[2], how->shared);
    for (unsigned i = 0; i < how->count; i++)
        fprintf(out(), " attribute %d: %u %u %u", how->attributes[i].id, how->attributes[i].value[0],
                how->attributes[i].id == 4 ? how->attributes[i].value[1] : 0, how->attributes[i].id == 4 ? how->attributes[i].value[2] : 0);
    for (int i = 0; i < name[1] - '0'; i++) fprintf(out(), " %016llx", (unsigned long long)*(uint64_t *)parameters[i]);
    fprintf(out(), extra ? " extra\n" : "\n");
    fflush(out());
    if (name[1] != '0') **(unsigned char **)parameters[0] += 1;
    return 0;
}
int cuTensorMapEncodeTiled(uint64_t *map, int type, unsigned rank, void *address, const uint64_t *sizes, const uint64_t *strides,
                           const unsigned *box, const unsigned *steps, int interleave, int swizzle, int promotion, int fill) {
    (void)address;
    if ((uintptr_t)map % 64) return 1;
    for (int i = 0; i < 16; i++) map[i] = i;
    fprintf(out(), "map %d rank %u sizes %llu %llu stride %llu box %u %u steps %u %u %d %d %d %d\n", type, rank, (unsigned long long)sizes[0],
            (unsigned long long)sizes[1], (unsigned long long)strides[0], box[0], box[1], steps[0], steps[1], interleave, swizzle, promotion, fill);
    return 0;
}
typedef struct { size_t width, height, depth; int format; unsigned channels, flags; } array_shape;
int cuArray3DCreate(void **array, const array_shape *shape) {
    fprintf(out(), "array %zu %zu %zu format %d channels %u flags %u\n", shape->width, shape->height, shape->depth, shape->format,
            shape->channels, shape->flags);
    *array = (void *)7;
    return 0;
}
int cuArrayDestroy(void *array) { return array == (void *)7 ? 0 : 1; }
int cuTexObjectCreate(uint64_t *texture, const int *resource, const int *how, const void *view) {
    fprintf(out(), "texture of %d modes %d %d %d filter %d flags %d%s\n", resource[0], how[0], how[1], how[2], how[3], how[4], view ? " view" : "");
    *texture = 40;
    return 0;
}
int cuTexObjectDestroy(uint64_t texture) { return texture == 40 ? 0 : 1; }
int cuSurfObjectCreate(uint64_t *surface, const int *resource) { fprintf(out(), "surface of %d\n", resource[0]); *surface = 41; return 0; }
int cuSurfObjectDestroy(uint64_t surface) { return surface == 41 ? 0 : 1; }
typedef struct {
    size_t from_x, from_y; int from; const unsigned char *host; uintptr_t device; void *array; size_t pitch, to_x, to_y; int to;
    void *to_host; uintptr_t to_device; void *to_array; size_t to_pitch, width, height;
} copy;
int cuMemcpy2D(const copy *how) {
    fprintf(out(), "copy %d to %d array %p pitch %zu width %zu height %zu first %d\n", how->from, how->to, how->to_array, how->pitch, how->width,
            how->height, how->host[0]);
    return 0;
}

struct entry { const char *name; void *function; };
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);
int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, 0);
}
#define E(name) {#name, (void *)name}
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    static const struct entry table[] = {
        E(cuInit), E(cuDriverGetVersion), E(cuDeviceGetCount), E(cuDeviceGet), E(cuDeviceGetName), E(cuDeviceGetAttribute),
        E(cuDevicePrimaryCtxRetain), E(cuCtxGetCurrent), E(cuCtxSetCurrent), E(cuCtxGetDevice), E(cuCtxSynchronize), E(cuModuleLoadDataEx),
        E(cuModuleUnload), E(cuModuleGetFunction), E(cuModuleGetGlobal), E(cuLibraryGetGlobal), E(cuFuncGetAttribute), E(cuFuncSetAttribute),
        E(cuMemAlloc), E(cuMemFree), E(cuMemcpyHtoD), E(cuMemcpyDtoH), E(cuMemcpyDtoD), E(cuMemHostAlloc), E(cuMemHostGetDevicePointer),
        E(cuMemFreeHost), E(cuEventCreate), E(cuEventRecord), E(cuEventSynchronize), E(cuEventElapsedTime), E(cuLaunchKernelEx),
        E(cuTensorMapEncodeTiled), E(cuArray3DCreate), E(cuArrayDestroy), E(cuTexObjectCreate), E(cuTexObjectDestroy), E(cuSurfObjectCreate),
        E(cuSurfObjectDestroy), E(cuMemcpy2D), {"cuGetProcAddress", (void *)cuGetProcAddress_v2},
    };
    (void)version; (void)flags;
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
        if (!strcmp(name, table[i].name)) {
            *function = table[i].function;
            if (status) *status = 0;
            return 0;
        }
    }
    *function = 0;
    if (status) *status = 1;
    return 500;
}
