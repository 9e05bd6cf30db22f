/* An nvJitLink that does what FAKE_NVJITLINK says. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is(const char *what) { const char *mode = getenv("FAKE_NVJITLINK"); return mode && !strcmp(mode, what); }

int nvJitLinkVersion(unsigned *major, unsigned *minor) { *major = 13; *minor = 99; return 0; }
int nvJitLinkCreate(void **handle, unsigned count, const char **options) {
    (void)count; (void)options;
    *handle = (void *)1;
    return is("unknown architecture") ? 17 : 0;
}
int nvJitLinkAddData(void *handle, int kind, const void *data, size_t size, const char *name) {
    (void)handle; (void)kind; (void)data; (void)size; (void)name;
    if (is("abort")) abort();
    if (is("hang")) for (;;) pause();
    if (is("hang with children") && fork() >= 0) for (;;) pause();
    return is("internal error") ? 6 : 0;
}
int nvJitLinkComplete(void *handle) { (void)handle; return 0; }
static const char *log_of(int errors) { return errors && is("false success") ? "error   : Undefined reference to 'ext' in 'in.ptx'\n" : ""; }
int nvJitLinkGetErrorLogSize(void *handle, size_t *size) { (void)handle; *size = strlen(log_of(1)) + 1; return 0; }
int nvJitLinkGetErrorLog(void *handle, char *text) { (void)handle; strcpy(text, log_of(1)); return 0; }
int nvJitLinkGetInfoLogSize(void *handle, size_t *size) { (void)handle; *size = 1; return 0; }
int nvJitLinkGetInfoLog(void *handle, char *text) { (void)handle; *text = 0; return 0; }
int nvJitLinkGetLinkedCubinSize(void *handle, size_t *size) { (void)handle; *size = 4; return 0; }
int nvJitLinkGetLinkedCubin(void *handle, void *cubin) { (void)handle; memcpy(cubin, "\177ELF", 4); return 0; }
int nvJitLinkDestroy(void **handle) { *handle = 0; return 0; }
