/*
 * Softmax from C: each row of x becomes exp(x - max) / sum(exp(x - max)), float32, by a kernel that was written in Triton and
 * exported. A program takes a row and keeps it in registers, so rows are at most as wide as the kernel's block.
 */
#include "gpu.h"
#include "softmax.h"

enum { ROWS = 1823, COLUMNS = 781, STRIDE = 800 }; /* rows lie apart: STRIDE elements from one to the next */
/* Of the exact value: exp2 of up to 16 * log2(e), rounded to 24 bits, is off by 1e-6 of itself, and the sum by less. */
static const double TOLERANCE = 1e-5;

/* The largest error of a row, as a part of the value. */
static double check_row(const float *x, const float *out) {
    double maximum = x[0], sum = 0.0, largest = 0.0;
    int column;
    for (column = 1; column < COLUMNS; column++) maximum = fmax(maximum, x[column]);
    for (column = 0; column < COLUMNS; column++) sum += exp(x[column] - maximum);
    for (column = 0; column < COLUMNS; column++) {
        double exact = exp(x[column] - maximum) / sum;
        largest = worse(largest, fabs(out[column] - exact) / exact);
    }
    return largest;
}

int main(void) {
    struct gpu gpu = open_gpu();
    const size_t x_bytes = sizeof(float) * ROWS * STRIDE, out_bytes = sizeof(float) * ROWS * COLUMNS;
    float *x = host_memory(x_bytes), *out = host_memory(out_bytes), times[RUNS];
    uint32_t state = 2;
    CUdeviceptr gpu_x, gpu_out;
    double largest = 0.0;
    int index;

    for (index = 0; index < ROWS * STRIDE; index++) x[index] = (float)next_odd(&state, 24) / (1 << 20); /* -8 to 8 */
    gpu_x = upload(x, x_bytes);
    gpu_out = poisoned(out_bytes);

    printf("Softmax in C on %s: %d rows of %d float32, error as a part of the value\n", gpu.name, ROWS, COLUMNS);
    must("softmax_default", softmax_default(gpu.stream, gpu_x, gpu_out, ROWS, COLUMNS, STRIDE));
    download(&gpu, out, gpu_out, out_bytes);
    for (index = 0; index < ROWS; index++)
        largest = worse(largest, check_row(x + (size_t)index * STRIDE, out + (size_t)index * COLUMNS));
    for (index = 0; index < RUNS; index++) {
        start_timer(&gpu);
        must("softmax_default", softmax_default(gpu.stream, gpu_x, gpu_out, ROWS, COLUMNS, STRIDE));
        times[index] = stop_timer(&gpu);
    }

    must("cuMemFree", cuMemFree(gpu_x));
    must("cuMemFree", cuMemFree(gpu_out));
    free(x);
    free(out);
    must("unload_softmax", unload_softmax());
    close_gpu(&gpu);
    return report("every row", largest, TOLERANCE, median(times, RUNS));
}
