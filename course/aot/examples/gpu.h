/*
 * What the samples share, in what C and C++ have in common: a GPU opened, memory on it, numbers to compute with, a time,
 * and every CUresult checked.
 */
#ifndef GPU_H
#define GPU_H

#include <cuda.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum ending { AGREES = 0, FAILED = 1, DIFFERS = 2 }; /* how a sample ends */
enum { RUNS = 21 };                                  /* launches that are timed; the middle one counts */

/* Ends the program with one sentence where a call did not succeed. What it had allocated goes with the process. */
static inline void must(const char *call, CUresult result) {
    const char *name = NULL, *words = NULL;
    if (result == CUDA_SUCCESS) return;
    cuGetErrorName(result, &name);
    cuGetErrorString(result, &words);
    fprintf(stderr, "%s returned %s: %s.\n", call, name ? name : "an unknown error",
            words ? words : "the driver has no words for it");
    exit(FAILED);
}

struct gpu {
    CUdevice device;
    CUstream stream;
    CUevent from, to;
    char name[128];
};

/*
 * The first GPU. Its primary context is the one that PyTorch and CUDA's runtime use too. A stream of the default kind waits
 * for copies and fills, which a non-blocking one would not.
 */
static inline struct gpu open_gpu(void) {
    struct gpu gpu;
    CUcontext context;
    must("cuInit", cuInit(0));
    must("cuDeviceGet", cuDeviceGet(&gpu.device, 0));
    must("cuDeviceGetName", cuDeviceGetName(gpu.name, sizeof gpu.name, gpu.device));
    must("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, gpu.device));
    must("cuCtxSetCurrent", cuCtxSetCurrent(context));
    must("cuStreamCreate", cuStreamCreate(&gpu.stream, CU_STREAM_DEFAULT));
    must("cuEventCreate", cuEventCreate(&gpu.from, CU_EVENT_DEFAULT));
    must("cuEventCreate", cuEventCreate(&gpu.to, CU_EVENT_DEFAULT));
    return gpu;
}

static inline void close_gpu(struct gpu *gpu) {
    must("cuEventDestroy", cuEventDestroy(gpu->to));
    must("cuEventDestroy", cuEventDestroy(gpu->from));
    must("cuStreamDestroy", cuStreamDestroy(gpu->stream));
    must("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease(gpu->device));
}

/* Memory on the GPU with a copy of what is at `from`. */
static inline CUdeviceptr upload(const void *from, size_t bytes) {
    CUdeviceptr memory;
    must("cuMemAlloc", cuMemAlloc(&memory, bytes));
    must("cuMemcpyHtoD", cuMemcpyHtoD(memory, from, bytes));
    return memory;
}

/* Memory on the GPU for a result. Every byte is 0xff, a NaN in each type: what a kernel leaves out agrees with nothing. */
static inline CUdeviceptr poisoned(size_t bytes) {
    CUdeviceptr memory;
    must("cuMemAlloc", cuMemAlloc(&memory, bytes));
    must("cuMemsetD8", cuMemsetD8(memory, 0xff, bytes));
    return memory;
}

static inline void download(const struct gpu *gpu, void *to, CUdeviceptr from, size_t bytes) {
    must("cuStreamSynchronize", cuStreamSynchronize(gpu->stream));
    must("cuMemcpyDtoH", cuMemcpyDtoH(to, from, bytes));
}

static inline int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The time of a launch in milliseconds: the middle one of some. arrays: what `launch` is given. */
static inline float median_ms(const struct gpu *gpu, CUresult (*launch)(CUstream, const void *), const void *arrays) {
    float times[RUNS];
    int run;
    for (run = 0; run < RUNS; run++) {
        must("cuEventRecord", cuEventRecord(gpu->from, gpu->stream));
        must("the launch", launch(gpu->stream, arrays));
        must("cuEventRecord", cuEventRecord(gpu->to, gpu->stream));
        must("cuEventSynchronize", cuEventSynchronize(gpu->to));
        must("cuEventElapsedTime", cuEventElapsedTime(&times[run], gpu->from, gpu->to));
    }
    qsort(times, RUNS, sizeof *times, compare_floats);
    return times[RUNS / 2];
}

/* The next of a fixed sequence of odd numbers between -2^(bits - 1) and 2^(bits - 1): none is 0. */
static inline int32_t next_odd(uint32_t *state, int bits) {
    *state = *state * 1664525u + 1013904223u;
    return (int32_t)(*state >> (32 - bits) | 1) - ((int32_t)1 << (bits - 1));
}

/* The larger of two errors. A NaN is the largest there is, and stays. */
static inline double worse(double largest, double error) { return isnan(largest) || error <= largest ? largest : error; }

/* Prints one line, and says how the program should end. */
static inline enum ending report(const char *what, double largest, double tolerance, float ms) {
    int agrees = largest <= tolerance;
    printf("    %s: largest error %.3g, at most %.3g is right; %.4f ms a launch\n", what, largest, tolerance, (double)ms);
    if (!agrees)
        printf("    The result does not agree with the plain loop%s.\n",
               isnan(largest) ? ": all or part of it was never computed" : "");
    return agrees ? AGREES : DIFFERS;
}

#endif
