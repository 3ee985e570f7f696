/* Memory, which is the host's; streams and events, which have nothing to wait for; and the names of errors. */
#include "fake_driver.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *at(CUdeviceptr address) { return (void *)(uintptr_t)address; }

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
    void *memory = NULL;
    CUresult result = told_to_fail("cuMemAlloc");
    if (result != CUDA_SUCCESS) return result;
    if (current_device() < 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    if (posix_memalign(&memory, 256, bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = (CUdeviceptr)(uintptr_t)memory;
    return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr address) {
    free(at(address));
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *bytes) {
    *free_bytes = *bytes = (size_t)1 << 33;
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) { return memcpy(at(to), from, bytes), CUDA_SUCCESS; }
CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) { return memcpy(to, at(from), bytes), CUDA_SUCCESS; }
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) { return memmove(at(to), at(from), bytes), CUDA_SUCCESS; }
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    (void)stream;
    return cuMemcpyHtoD(to, from, bytes);
}
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    (void)stream;
    return cuMemcpyDtoH(to, from, bytes);
}
CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) { return memset(at(to), value, count), CUDA_SUCCESS; }
CUresult cuMemsetD32(CUdeviceptr to, unsigned int value, size_t count) {
    size_t index;
    for (index = 0; index < count; index++) memcpy((char *)at(to) + 4 * index, &value, 4);
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
    (void)flags;
    *stream = (CUstream)malloc(1);
    return told_to_fail("cuStreamCreate");
}
CUresult cuStreamDestroy(CUstream stream) { return free(stream), CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream stream) {
    (void)stream;
    return told_to_fail("cuStreamSynchronize");
}

CUresult cuEventCreate(CUevent *event, unsigned int flags) {
    (void)flags;
    *event = (CUevent)calloc(1, sizeof(struct timespec));
    return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
    (void)stream;
    return clock_gettime(CLOCK_MONOTONIC, (struct timespec *)(void *)event), CUDA_SUCCESS;
}
CUresult cuEventSynchronize(CUevent event) {
    (void)event;
    return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent event) { return cuEventSynchronize(event); }
CUresult cuEventDestroy(CUevent event) { return free(event), CUDA_SUCCESS; }

/* The host's time between two records: nothing ran meanwhile. Both of cuda.h's names for it. */
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to);
CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent from, CUevent to);
CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to) {
    const struct timespec *start = (struct timespec *)(void *)from, *end = (struct timespec *)(void *)to;
    *milliseconds = (float)(end->tv_sec - start->tv_sec) * 1e3f + (float)(end->tv_nsec - start->tv_nsec) * 1e-6f;
    return CUDA_SUCCESS;
}
CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent from, CUevent to) {
    return cuEventElapsedTime(milliseconds, from, to);
}

static const struct { CUresult value; const char *name, *words; } errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static CUresult told(CUresult error, const char **text, int name) {
    size_t index;
    for (index = 0; index < sizeof errors / sizeof errors[0]; index++)
        if (errors[index].value == error) {
            *text = name ? errors[index].name : errors[index].words;
            return CUDA_SUCCESS;
        }
    *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **text) { return told(error, text, 1); }
CUresult cuGetErrorString(CUresult error, const char **text) { return told(error, text, 0); }
