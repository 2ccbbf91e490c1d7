// A GPU that has memory and copies, but computes nothing. The variable FAULT, such as "launch 17 700", says
// which call fails, from which one on, and with what. Out of memory (2) passes; with anything else
// the device is lost, and all calls after it fail too.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long Address;
typedef unsigned long Size;

static long calls;
static int lost;

static int fails(const char *call) {
    const char *fault = getenv("FAULT");
    char which[16];
    long first;
    int code;
    if (lost) return lost;
    if (!fault || sscanf(fault, "%15s %ld %d", which, &first, &code) != 3) return 0;
    if (strcmp(which, call) || __sync_add_and_fetch(&calls, 1) < first) return 0;
    if (code != 2) lost = code;
    return code;
}

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int index) { *device = 0; return 0; }
int cuDeviceGetName(char *name, int size, int device) { strcpy(name, "Blank"); return 0; }
int cuDeviceGetAttribute(int *value, int which, int device) {
    *value = which == 75 ? 9 : which == 16 ? 132 : which == 97 ? 232448 : 0;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)1; return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuGetErrorString(int error, const char **text) {
    *text = error == 2 ? "out of memory" : "the device is lost";
    return 0;
}
int cuStreamCreate(void **stream, unsigned flags) { *stream = (void *)1; return 0; }
int cuStreamDestroy_v2(void *stream) { return 0; }
int cuStreamSynchronize(void *stream) { return fails("wait"); }
int cuEventCreate(void **event, unsigned flags) { *event = (void *)1; return 0; }
int cuEventDestroy_v2(void *event) { return 0; }
int cuEventRecord(void *event, void *stream) { return lost; }
int cuEventSynchronize(void *event) { return fails("wait"); }
int cuMemGetInfo_v2(Size *free, Size *total) { *free = *total = 8ul << 30; return lost; }
int cuMemAlloc_v2(Address *address, Size size) {
    int error = fails("alloc");
    if (!error) *address = (Address)calloc(1, size);
    return error;
}
int cuMemFree_v2(Address address) { free((void *)address); return 0; }
int cuMemHostAlloc(void **address, Size size, unsigned flags) {
    *address = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    return 0;
}
int cuMemFreeHost(void *address) { free(address); return 0; }
int cuMemsetD8Async(Address to, unsigned char value, Size size, void *stream) {
    memset((void *)to, value, size);
    return lost;
}
static int copy(void *to, const void *from, Size size) {
    int error = fails("copy");
    if (!error) memmove(to, from, size);
    return error;
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, Size size, void *stream) {
    return copy((void *)to, (void *)from, size);
}
int cuMemcpyHtoDAsync_v2(Address to, const void *from, Size size, void *stream) {
    return copy((void *)to, from, size);
}
int cuMemcpyDtoHAsync_v2(void *to, Address from, Size size, void *stream) {
    return copy(to, (void *)from, size);
}
int cuModuleLoadData(void **module, const void *image) { *module = (void *)1; return lost; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = (void *)1;
    return 0;
}
int cuFuncGetAttribute(int *value, int which, void *function) { *value = 0; return 0; }
int cuFuncSetAttribute(void *function, int which, int value) { return 0; }
int cuLaunchKernel() { return fails("launch"); }

int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 0; return 0; }
int nvrtcCreateProgram(void **program) { *program = (void *)1; return 0; }
int nvrtcCompileProgram() { return 0; }
int nvrtcGetCUBINSize(void *program, Size *size) { *size = 1; return 0; }
int nvrtcGetCUBIN(void *program, char *code) { *code = 0; return 0; }
int nvrtcGetProgramLogSize(void *program, Size *size) { *size = 0; return 0; }
int nvrtcGetProgramLog(void *program, char *log) { return 0; }
int nvrtcDestroyProgram(void **program) { return 0; }

int cublasCreate_v2(void **handle) { *handle = (void *)1; return 0; }
int cublasDestroy_v2(void *handle) { return 0; }
int cublasSetStream_v2(void *handle, void *stream) { return 0; }
int cublasSetMathMode(void *handle, int mode) { return 0; }
int cublasGemmStridedBatchedEx() { return fails("product"); }
int cublasGemmBatchedEx() { return fails("product"); }
