/* Devices, as many as COURSE_FAKE_DRIVER_DEVICES says and of the capabilities in COURSE_FAKE_DRIVER_CAPABILITIES ("90,80"), and contexts. */
#include "fake_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST 16

/* A context is one of these; its number is its device's. */
static char contexts[MOST_DEVICES];
static __thread CUcontext stack[DEEPEST];
static __thread int depth = 0;
static int initialized = 0;

static CUcontext context_of(CUdevice device) { return (CUcontext)(void *)&contexts[device]; }
static int known(CUdevice device) { return device >= 0 && device < device_count(); }

int device_count(void) {
    int count = number_from_environment("COURSE_FAKE_DRIVER_DEVICES", 0, 1);
    return count < 0 ? 0 : count > MOST_DEVICES ? MOST_DEVICES : count;
}

int current_device(void) { return depth > 0 && stack[depth - 1] != NULL ? (int)((char *)stack[depth - 1] - contexts) : -1; }

CUresult cuInit(unsigned int flags) {
    CUresult result = told_to_fail("cuInit");
    (void)flags;
    if (result == CUDA_SUCCESS) initialized = 1;
    return result;
}

CUresult cuDriverGetVersion(int *version) {
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
    if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
    *count = device_count();
    return told_to_fail("cuDeviceGetCount");
}

CUresult cuDeviceGet(CUdevice *device, int index) {
    if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
    if (!known(index)) return CUDA_ERROR_INVALID_DEVICE;
    *device = index;
    return told_to_fail("cuDeviceGet");
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    if (!known(device)) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)length, "Fake GPU %d", device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
    if (!known(device)) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = (size_t)1 << 33;
    return CUDA_SUCCESS;
}

/* As in NVIDIA's CUDA programming guide. */
static int most_shared_bytes(int capability) {
    switch (capability) {
        case 70: return 96 << 10;
        case 75: return 64 << 10;
        case 80: case 87: return 163 << 10;
        case 86: case 89: case 120: return 99 << 10;
        default: return 227 << 10;
    }
}

/* An H100's where the capability is 9.0, and plausible elsewhere. */
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    int capability = number_from_environment("COURSE_FAKE_DRIVER_CAPABILITIES", device, 90);
    CUresult result = told_to_fail("cuDeviceGetAttribute");
    if (!known(device)) return CUDA_ERROR_INVALID_DEVICE;
    switch ((int)attribute) {
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = capability / 10; break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = capability % 10; break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 49152; break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = most_shared_bytes(capability); break;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; break;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
        default: *value = 0;
    }
    return result;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
    if (!known(device)) return CUDA_ERROR_INVALID_DEVICE;
    *context = context_of(device);
    return told_to_fail("cuDevicePrimaryCtxRetain");
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return known(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE; }

CUresult cuCtxSetCurrent(CUcontext context) {
    if (depth == 0) depth = 1;
    stack[depth - 1] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
    if (depth == DEEPEST || context == NULL) return CUDA_ERROR_INVALID_VALUE;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context) {
    if (depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (context != NULL) *context = stack[depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    *context = depth > 0 ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    if (current_device() < 0) return CUDA_ERROR_INVALID_CONTEXT;
    *device = current_device();
    return CUDA_SUCCESS;
}

/* cuda.h renames cuCtxCreate to its latest version; programs built against an older one call that one's. */
#undef cuCtxCreate
CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device) {
    CUresult result = cuDevicePrimaryCtxRetain(context, device);
    (void)flags;
    return result == CUDA_SUCCESS ? cuCtxPushCurrent(*context) : result;
}
CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *parameters, unsigned int flags, CUdevice device) {
    (void)parameters;
    return cuCtxCreate_v2(context, flags, device);
}

CUresult cuCtxDestroy(CUcontext context) {
    if (depth > 0 && stack[depth - 1] == context) depth--;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) { return current_device() < 0 ? CUDA_ERROR_INVALID_CONTEXT : told_to_fail("cuCtxSynchronize"); }
