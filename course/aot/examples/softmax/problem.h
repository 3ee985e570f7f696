/*
 * Softmax: each row of x becomes exp(x - max) / sum(exp(x - max)), float32, by a kernel that was written in Triton and
 * exported. A program takes a row and keeps it in registers, so rows are at most as wide as the kernel's block. Here are its
 * inputs, its launch and what is right, for main.c and main.cpp.
 */
#include "gpu.h"
#include "softmax.h"

enum { ROWS = 1823, COLUMNS = 781, STRIDE = 800 }; /* rows lie apart: STRIDE elements from one to the next */
/* As a part of the exact value: exp2 of up to 16 * log2(e), rounded to 24 bits, is off by 1e-6 of itself, and the sum by less. */
static const double TOLERANCE = 1e-5;

/* On the GPU. */
struct arrays {
    CUdeviceptr x, out;
};

static inline void fill(float *x) {
    uint32_t state = 2;
    int index;
    for (index = 0; index < ROWS * STRIDE; index++) x[index] = (float)next_odd(&state, 24) / (1 << 20); /* -8 to 8 */
}

static inline CUresult launch(CUstream stream, const void *given) {
    const struct arrays *at = (const struct arrays *)given;
    return softmax_default(stream, at->x, at->out, ROWS, COLUMNS, STRIDE);
}

/* The largest error, as a part of the value. */
static inline double largest_error(const float *x, const float *out) {
    double largest = 0.0;
    int row, column;
    for (row = 0; row < ROWS; row++, x += STRIDE, out += COLUMNS) {
        double maximum = x[0], sum = 0.0;
        for (column = 1; column < COLUMNS; column++) maximum = fmax(maximum, x[column]);
        for (column = 0; column < COLUMNS; column++) sum += exp(x[column] - maximum);
        for (column = 0; column < COLUMNS; column++) {
            double exact = exp(x[column] - maximum) / sum;
            largest = worse(largest, fabs(out[column] - exact) / exact);
        }
    }
    return largest;
}
