/*
 * Vector add from C: out = x + y in float32, by a kernel that was written in Triton and exported.
 *
 * The linked function has two variants. One loads 16 bytes at once and relies on addresses and a length that are
 * multiples of 16; the other takes any. Which one runs is decided at each launch: here once for whole arrays, once from
 * element 1 on.
 */
#include "gpu.h"
#include "vector_add.h"

enum { COUNT = 1000000 };
/* Of the exact sum: half a unit in the last place of float32's 24 bits, since it is rounded once. */
static const double TOLERANCE = 1.0 / (1 << 24);

static int add(struct gpu *gpu, const char *what, const float *x, const float *y, int first) {
    const int count = COUNT - first;
    const size_t skip = (size_t)first * sizeof(float), bytes = COUNT * sizeof(float);
    CUdeviceptr gpu_x = upload(x, bytes), gpu_y = upload(y, bytes), gpu_out = poisoned(bytes);
    float *out = host_memory(bytes), times[RUNS];
    double largest = 0.0;
    int index;

    must("vector_add_default", vector_add_default(gpu->stream, gpu_x + skip, gpu_y + skip, gpu_out + skip, count));
    download(gpu, out, gpu_out, bytes);
    for (index = first; index < COUNT; index++) {
        double exact = (double)x[index] + y[index];
        largest = worse(largest, exact == 0.0 ? fabs((double)out[index]) : fabs(out[index] - exact) / fabs(exact));
    }
    for (index = 0; index < RUNS; index++) {
        start_timer(gpu);
        must("vector_add_default", vector_add_default(gpu->stream, gpu_x + skip, gpu_y + skip, gpu_out + skip, count));
        times[index] = stop_timer(gpu);
    }

    must("cuMemFree", cuMemFree(gpu_x));
    must("cuMemFree", cuMemFree(gpu_y));
    must("cuMemFree", cuMemFree(gpu_out));
    free(out);
    return report(what, largest, TOLERANCE, median(times, RUNS));
}

int main(void) {
    struct gpu gpu = open_gpu();
    float *x = host_memory(COUNT * sizeof *x), *y = host_memory(COUNT * sizeof *y);
    uint32_t state = 1;
    int index, ending, other;

    for (index = 0; index < COUNT; index++) {
        x[index] = (float)next_odd(&state, 24) / (1 << 20); /* between -8 and 8 */
        y[index] = (float)next_odd(&state, 24) / (1 << 14); /* between -512 and 512: the sum has to be rounded */
    }
    printf("Vector add in C on %s: %d elements of float32, error as a part of the sum\n", gpu.name, COUNT);
    ending = add(&gpu, "aligned", x, y, 0);
    other = add(&gpu, "from element 1 on", x, y, 1);

    free(x);
    free(y);
    must("unload_vector_add", unload_vector_add());
    close_gpu(&gpu);
    return ending != AGREES ? ending : other;
}
