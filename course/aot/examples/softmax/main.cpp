// Softmax from C++.
#include "gpu.hpp"
#include "problem.h"

int main() {
    const Gpu gpu;
    std::vector<float> x(ROWS * STRIDE);
    fill(x.data());
    const Array<float> gpu_x(x), gpu_out(ROWS * COLUMNS);
    const arrays given{gpu_x, gpu_out};
    printf("Softmax in C++ on %s: %d rows of %d float32, error as a part of the value\n", gpu.name, ROWS, COLUMNS);
    must("softmax_default", launch(gpu.stream, &given));
    const std::vector<float> out = gpu_out.downloaded(gpu);
    const float ms = median_ms(&gpu, launch, &given);
    must("unload_softmax", unload_softmax());
    return report("every row", largest_error(x.data(), out.data()), TOLERANCE, ms);
}
