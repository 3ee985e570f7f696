/* Vector add from C. */
#include "problem.h"

static float x[COUNT], y[COUNT], out[COUNT];

static enum ending add(const struct gpu *gpu, const char *what, int first) {
    struct arrays arrays = {upload(x, sizeof x), upload(y, sizeof y), poisoned(sizeof out), first};
    float ms;

    must("vector_add_default", launch(gpu->stream, &arrays));
    download(gpu, out, arrays.out, sizeof out);
    ms = median_ms(gpu, launch, &arrays);

    must("cuMemFree", cuMemFree(arrays.x));
    must("cuMemFree", cuMemFree(arrays.y));
    must("cuMemFree", cuMemFree(arrays.out));
    return report(what, largest_error(x, y, out, first), TOLERANCE, ms);
}

int main(void) {
    struct gpu gpu = open_gpu();
    enum ending whole, rest;

    fill(x, y);
    printf("Vector add in C on %s: %d elements of float32, error as a part of the sum\n", gpu.name, COUNT);
    whole = add(&gpu, "aligned", 0);
    rest = add(&gpu, "from element 1 on", 1);
    must("unload_vector_add", unload_vector_add());
    close_gpu(&gpu);
    return whole != AGREES ? whole : rest;
}
