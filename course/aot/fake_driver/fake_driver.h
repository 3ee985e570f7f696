/* A library in the place of NVIDIA's driver: what its files share. It runs no kernels; it checks and records launches. */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

/* By which a process knows that the fake driver is loaded. */
extern const int course_fake_driver;

#define MOST_DEVICES 8
#define MOST_PARAMETERS 512

/* One kernel of an image. A CUfunction and a CUkernel both point to one. */
struct kernel {
    struct kernel *next;
    char *name;
    int count;
    int sizes[MOST_PARAMETERS]; /* bytes of each parameter */
    int shared_bytes[MOST_DEVICES]; /* what was allowed beyond the 48 KB that need no asking */
};

/* A CUmodule or a CUlibrary. */
struct image {
    struct kernel *kernels;
};

/* image.c: the kernels of a cubin, or NULL where the code is no cubin. */
struct image *image_of(const void *code);
void free_image(struct image *image);
struct kernel *kernel_named(struct image *image, const char *name);

/* record.c: one line of JSON to the file that COURSE_FAKE_DRIVER_LOG names, as {"call": name, "result": n, more}. */
CUresult record(const char *call, CUresult result, const char *more, ...);
int recording(void);
/* What COURSE_FAKE_DRIVER_FAIL ("cuLaunchKernel=719,cuInit=100") has this call return; else CUDA_SUCCESS. */
CUresult told_to_fail(const char *call);
int number_from_environment(const char *name, int index, int otherwise);

/* context.c: the device of this thread's context, or -1. */
int current_device(void);
int device_count(void);

#endif
