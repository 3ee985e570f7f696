/* Images, kernels, their attributes, and launches: checked as the driver would, and recorded. */
#include "fake_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLAIN_SHARED_BYTES 49152

/* As long as COURSE_FAKE_DRIVER_LOAD_MS says, so that threads meet here. */
static CUresult loaded(const char *call, struct image **image, const void *code) {
    CUresult result = told_to_fail(call);
    usleep(1000 * (useconds_t)number_from_environment("COURSE_FAKE_DRIVER_LOAD_MS", 0, 0));
    if (result == CUDA_SUCCESS) {
        *image = image_of(code);
        if (*image == NULL) result = CUDA_ERROR_INVALID_IMAGE;
    }
    return record(call, result, ", \"kernel\": \"%s\"",
                  result == CUDA_SUCCESS && (*image)->kernels != NULL ? (*image)->kernels->name : "");
}

static CUresult found(const char *call, struct kernel **kernel, struct image *image, const char *name) {
    CUresult result = told_to_fail(call);
    if (result == CUDA_SUCCESS) {
        *kernel = kernel_named(image, name);
        if (*kernel == NULL) result = CUDA_ERROR_NOT_FOUND;
    }
    return record(call, result, ", \"kernel\": \"%s\"", name);
}

static CUresult unloaded(const char *call, struct image *image) {
    CUresult result = told_to_fail(call);
    if (result == CUDA_SUCCESS && image == NULL) result = CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS) free_image(image);
    return record(call, result, "");
}

static CUresult attribute(const char *call, struct kernel *kernel, CUfunction_attribute which, int value, int device) {
    CUresult result = told_to_fail(call);
    int most = 0;
    if (result == CUDA_SUCCESS && which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
        cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);
        if (value < 0 || value > most) result = CUDA_ERROR_INVALID_VALUE;
        else kernel->shared_bytes[device] = value;
    }
    return record(call, result, ", \"kernel\": \"%s\", \"attribute\": %d, \"value\": %d, \"device\": %d",
                  kernel->name, (int)which, value, device);
}

CUresult cuModuleLoadData(CUmodule *module, const void *code) {
    if (current_device() < 0) return record("cuModuleLoadData", CUDA_ERROR_INVALID_CONTEXT, "");
    return loaded("cuModuleLoadData", (struct image **)module, code);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *code, unsigned int count, CUjit_option *options, void **values) {
    (void)count, (void)options, (void)values;
    return cuModuleLoadData(module, code);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    return found("cuModuleGetFunction", (struct kernel **)function, (struct image *)module, name);
}

CUresult cuModuleUnload(CUmodule module) { return unloaded("cuModuleUnload", (struct image *)module); }

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
    return attribute("cuFuncSetAttribute", (struct kernel *)function, which, value, current_device());
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
    return record("cuFuncSetCacheConfig", told_to_fail("cuFuncSetCacheConfig"), ", \"kernel\": \"%s\", \"value\": %d",
                  ((struct kernel *)function)->name, (int)config);
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options, void **values, unsigned int count,
                           CUlibraryOption *more, void **more_values, unsigned int more_count) {
    (void)options, (void)values, (void)count, (void)more, (void)more_values, (void)more_count;
    if (cuDeviceGetCount(&(int){0}) == CUDA_ERROR_NOT_INITIALIZED)
        return record("cuLibraryLoadData", CUDA_ERROR_NOT_INITIALIZED, "");
    return loaded("cuLibraryLoadData", (struct image **)library, code);
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    return found("cuLibraryGetKernel", (struct kernel **)kernel, (struct image *)library, name);
}

CUresult cuLibraryUnload(CUlibrary library) { return unloaded("cuLibraryUnload", (struct image *)library); }

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    *function = (CUfunction)kernel;
    return told_to_fail("cuKernelGetFunction");
}

CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel kernel, CUdevice device) {
    return attribute("cuKernelSetAttribute", (struct kernel *)kernel, which, value, device);
}

static CUresult checked(const struct kernel *kernel, const unsigned *grid, const unsigned *block, unsigned shared, int device) {
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (kernel == NULL) return CUDA_ERROR_INVALID_HANDLE;
    if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (grid[0] == 0 || grid[0] > 0x7fffffff || grid[1] == 0 || grid[1] > 65535 || grid[2] == 0 || grid[2] > 65535)
        return CUDA_ERROR_INVALID_VALUE;
    if (threads == 0 || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
    if (shared > PLAIN_SHARED_BYTES && shared > (unsigned)kernel->shared_bytes[device]) return CUDA_ERROR_INVALID_VALUE;
    return told_to_fail("cuLaunchKernel");
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void **arguments, void **extra) {
    const struct kernel *kernel = (const struct kernel *)function;
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    const int device = current_device();
    CUresult result = extra != NULL ? CUDA_ERROR_NOT_SUPPORTED : checked(kernel, grid, block, shared, device);
    char text[16384] = "";
    size_t length = 0;
    int index, at;
    if (kernel == NULL || !recording()) return record("cuLaunchKernel", result, "");
    for (index = 0; arguments != NULL && index < kernel->count; index++) {
        const unsigned char *bytes = arguments[index];
        length += (size_t)snprintf(text + length, sizeof text - length, index ? ", \"" : "\"");
        for (at = 0; at < kernel->sizes[index] && length + 8 < sizeof text; at++)
            length += (size_t)snprintf(text + length, sizeof text - length, "%02x", bytes[at]);
        length += (size_t)snprintf(text + length, sizeof text - length, "\"");
    }
    return record("cuLaunchKernel", result,
                  ", \"kernel\": \"%s\", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"shared\": %u, \"stream\": %llu, "
                  "\"device\": %d, \"arguments\": [%s]",
                  kernel->name, gx, gy, gz, bx, by, bz, shared, (unsigned long long)(uintptr_t)stream, device, text);
}
