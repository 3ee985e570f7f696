/*
 * Vector add: out = x + y in float32, by a kernel that was written in Triton and exported. Its inputs, its launch and what is
 * right, for main.c and main.cpp.
 *
 * The linked function has two variants. One loads 16 bytes at once and relies on addresses and a length that are
 * multiples of 16; the other takes any. Which one runs is decided at each launch: here once for whole arrays, once from
 * element 1 on.
 */
#include "gpu.h"
#include "vector_add.h"

enum { COUNT = 1000000 };
/* As a part of the exact sum: half a unit in the last place of float32's 24 bits, since it is rounded once. */
static const double TOLERANCE = 1.0 / (1 << 24);

/* On the GPU, and from which element on they are added. */
struct arrays {
    CUdeviceptr x, y, out;
    int first;
};

static inline void fill(float *x, float *y) {
    uint32_t state = 1;
    int index;
    for (index = 0; index < COUNT; index++) {
        x[index] = (float)next_odd(&state, 24) / (1 << 20); /* between -8 and 8 */
        y[index] = (float)next_odd(&state, 24) / (1 << 14); /* between -512 and 512: the sum has to be rounded */
    }
}

static inline CUresult launch(CUstream stream, const void *given) {
    const struct arrays *at = (const struct arrays *)given;
    const size_t skip = (size_t)at->first * sizeof(float);
    return vector_add_default(stream, at->x + skip, at->y + skip, at->out + skip, COUNT - at->first);
}

static inline double largest_error(const float *x, const float *y, const float *out, int first) {
    double largest = 0.0;
    int index;
    for (index = first; index < COUNT; index++) {
        double exact = (double)x[index] + y[index], error = fabs(out[index] - exact);
        largest = worse(largest, exact == 0.0 ? error : error / fabs(exact));
    }
    return largest;
}
