/* Every function of the driver's that this library calls, under its own name: each hands on to the one in libcuda.so.1. */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define FUNCTIONS(F)                                                                                                           \
    F(cuInit, (unsigned int flags), (flags))                                                                                   \
    F(cuGetErrorName, (CUresult error, const char **text), (error, text))                                                      \
    F(cuGetErrorString, (CUresult error, const char **text), (error, text))                                                    \
    F(cuDeviceGetCount, (int *count), (count))                                                                                 \
    F(cuDeviceGet, (CUdevice *device, int index), (device, index))                                                             \
    F(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device), (value, attribute, device))           \
    F(cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device), (context, device))                                      \
    F(cuDevicePrimaryCtxRelease, (CUdevice device), (device))                                                                  \
    F(cuCtxPushCurrent, (CUcontext context), (context))                                                                        \
    F(cuCtxPopCurrent, (CUcontext *context), (context))                                                                        \
    F(cuLibraryLoadData,                                                                                                       \
      (CUlibrary *library, const void *code, CUjit_option *options, void **values, unsigned int count,                         \
       CUlibraryOption *library_options, void **library_values, unsigned int library_count),                                   \
      (library, code, options, values, count, library_options, library_values, library_count))                                 \
    F(cuLibraryGetKernel, (CUkernel *kernel, CUlibrary library, const char *name), (kernel, library, name))                    \
    F(cuLibraryUnload, (CUlibrary library), (library))                                                                         \
    F(cuKernelSetAttribute, (CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device),                     \
      (attribute, value, kernel, device))                                                                                      \
    F(cuLaunchKernel,                                                                                                          \
      (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,               \
       unsigned int block_y, unsigned int block_z, unsigned int shared, CUstream stream, void **arguments, void **extra),      \
      (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments, extra))

#define POINTER(name, parameters, values) static CUresult(*name##_found) parameters = NULL;
FUNCTIONS(POINTER)

/* Of some functions cuda.h makes the name another one, with a version: that one is in the library. */
#define TEXT(name) #name
#define FIND(name, parameters, values) copy_symbol(&name##_found, sizeof name##_found, library, TEXT(name));

/* ISO C has no conversion from what dlsym returns to a function: its bytes are copied. */
static void copy_symbol(void *to, size_t bytes, void *library, const char *name) {
    void *found = dlsym(library, name);
    memcpy(to, &found, bytes);
}

#define NAME "libcuda.so.1" /* a fake driver's too: one that was loaded before is found by it */

static int is_fake_driver(void *library) { return dlsym(library, "told_to_fail") != NULL; }

int fake_driver_is_loaded(void) {
    void *library = dlopen(NAME, RTLD_NOW | RTLD_NOLOAD);
    int found = library != NULL && is_fake_driver(library);
    if (library != NULL) dlclose(library);
    return found;
}

static enum driver driver = NO_DRIVER;

static void find(void) {
    void *library = dlopen(NAME, RTLD_NOW);
    if (library == NULL) return;
    FUNCTIONS(FIND)
    driver = is_fake_driver(library) ? FAKE_DRIVER : NVIDIA_DRIVER;
}

enum driver open_driver(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    enum driver found;
    pthread_mutex_lock(&lock);
    if (driver == NO_DRIVER) find();
    found = driver;
    pthread_mutex_unlock(&lock);
    return found;
}

#define HAND_ON(name, parameters, values) \
    CUresult name parameters { return name##_found == NULL ? CUDA_ERROR_NOT_INITIALIZED : name##_found values; }
FUNCTIONS(HAND_ON)
