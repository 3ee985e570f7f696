/*
 * How long a launch of an exported vector add takes the CPU, called from C. SOURCE is the file that aot.export wrote, LAUNCH
 * its function: what that file keeps to itself is seen here.
 */
#define _POSIX_C_SOURCE 199309L
#include <time.h>
#include SOURCE

double us_exported(CUstream stream, CUdeviceptr x, CUdeviceptr y, CUdeviceptr out, int32_t n, int launches);
double us_of_driver(CUstream stream, CUdeviceptr x, CUdeviceptr y, CUdeviceptr out, int32_t n, int launches);

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Microseconds of one launch of many; -1 where a launch fails. */
double us_exported(CUstream stream, CUdeviceptr x, CUdeviceptr y, CUdeviceptr out, int32_t n, int launches) {
    double start = now_us();
    int done;
    for (done = 0; done < launches; done++)
        if (LAUNCH(stream, x, y, out, n) != CUDA_SUCCESS) return -1;
    return (now_us() - start) / launches;
}

/* The same, of the driver's own function alone: one program, with a kernel that us_exported has loaded. */
double us_of_driver(CUstream stream, CUdeviceptr x, CUdeviceptr y, CUdeviceptr out, int32_t n, int launches) {
    CUdeviceptr scratch = 0; /* of the last two the driver reads as many as the kernel has */
    void *arguments[] = {&x, &y, &out, &n, &scratch, &scratch};
    double start = now_us();
    int done;
    for (done = 0; done < launches; done++)
        if (cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 128, 1, 1, 0, stream, arguments, NULL) != CUDA_SUCCESS) return -1;
    return (now_us() - start) / launches;
}
