/* Softmax from C. */
#include "problem.h"

static float x[ROWS * STRIDE], out[ROWS * COLUMNS];

int main(void) {
    struct gpu gpu = open_gpu();
    struct arrays arrays;
    float ms;

    fill(x);
    arrays.x = upload(x, sizeof x);
    arrays.out = poisoned(sizeof out);
    printf("Softmax in C on %s: %d rows of %d float32, error as a part of the value\n", gpu.name, ROWS, COLUMNS);
    must("softmax_default", launch(gpu.stream, &arrays));
    download(&gpu, out, arrays.out, sizeof out);
    ms = median_ms(&gpu, launch, &arrays);

    must("cuMemFree", cuMemFree(arrays.x));
    must("cuMemFree", cuMemFree(arrays.out));
    must("unload_softmax", unload_softmax());
    close_gpu(&gpu);
    return report("every row", largest_error(x, out), TOLERANCE, ms);
}
