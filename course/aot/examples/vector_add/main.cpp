// Vector add from C++.
#include "gpu.hpp"
#include "problem.h"

static ending add(const Gpu &gpu, const char *what, const std::vector<float> &x, const std::vector<float> &y, int first) {
    const Array<float> gpu_x(x), gpu_y(y), gpu_out(COUNT);
    const arrays given{gpu_x, gpu_y, gpu_out, first};
    must("vector_add_default", launch(gpu.stream, &given));
    const std::vector<float> out = gpu_out.downloaded(gpu);
    const float ms = median_ms(&gpu, launch, &given);
    return report(what, largest_error(x.data(), y.data(), out.data(), first), TOLERANCE, ms);
}

int main() {
    const Gpu gpu;
    std::vector<float> x(COUNT), y(COUNT);
    fill(x.data(), y.data());
    printf("Vector add in C++ on %s: %d elements of float32, error as a part of the sum\n", gpu.name, COUNT);
    const ending whole = add(gpu, "aligned", x, y, 0), rest = add(gpu, "from element 1 on", x, y, 1);
    must("unload_vector_add", unload_vector_add());
    return whole != AGREES ? whole : rest;
}
