/* How long a launch of an exported vector add takes the CPU, called from C. Compiled with what aot.link wrote under "add". */
#define _POSIX_C_SOURCE 199309L
#include <time.h>
#include "add.h"

double us_a_launch(CUstream stream, CUdeviceptr x, CUdeviceptr y, CUdeviceptr out, int32_t n_elements, int launches);

/* Microseconds, or -1 where a launch fails. */
double us_a_launch(CUstream stream, CUdeviceptr x, CUdeviceptr y, CUdeviceptr out, int32_t n_elements, int launches) {
    struct timespec start, end;
    int done;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (done = 0; done < launches; done++)
        if (add_default(stream, x, y, out, n_elements) != CUDA_SUCCESS) return -1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    return ((double)(end.tv_sec - start.tv_sec) * 1e6 + (double)(end.tv_nsec - start.tv_nsec) / 1e3) / launches;
}
