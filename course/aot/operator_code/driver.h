/* NVIDIA's driver library, found when it is first asked for: a library that was linked with it would not load without one. */
#ifndef DRIVER_H
#define DRIVER_H

#include <cuda.h>

#ifdef __cplusplus
extern "C" {
#endif

enum driver { NO_DRIVER, NVIDIA_DRIVER, FAKE_DRIVER };

/* Looks for libcuda.so.1 until there is one, and says what was found. Before that every call returns
 * CUDA_ERROR_NOT_INITIALIZED. */
enum driver open_driver(void);

/* Whether the driver library that this process has loaded by now is a fake driver. Loads none. */
int fake_driver_is_loaded(void);

#ifdef __cplusplus
}
#endif

#endif
