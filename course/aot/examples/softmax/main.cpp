// Softmax from C++: each row of x becomes exp(x - max) / sum(exp(x - max)), float32, by a kernel that was written in Triton
// and exported. A program takes a row and keeps it in registers, so rows are at most as wide as the kernel's block.
#include "gpu.hpp"
#include "softmax.h"

namespace {

constexpr int rows = 1823, columns = 781, stride = 800;  // rows lie apart: stride elements from one to the next
// Of the exact value: exp2 of up to 16 * log2(e), rounded to 24 bits, is off by 1e-6 of itself, and the sum by less.
constexpr double tolerance = 1e-5;

// The largest error of a row, as a part of the value.
double check_row(const float *x, const float *out) {
    const double maximum = *std::max_element(x, x + columns);
    double sum = 0.0, largest = 0.0;
    for (int column = 0; column < columns; column++) sum += std::exp(x[column] - maximum);
    for (int column = 0; column < columns; column++) {
        const double exact = std::exp(x[column] - maximum) / sum;
        largest = worse(largest, std::fabs(out[column] - exact) / exact);
    }
    return largest;
}

int sample() {
    const Gpu gpu;
    std::vector<float> x(std::size_t{rows} * stride);
    Odd odd(2);
    for (float &each : x) each = static_cast<float>(odd.next(24)) / (1 << 20);  // between -8 and 8
    const Array<float> gpu_x(x), gpu_out(std::size_t{rows} * columns);
    const auto launch = [&] {
        must("softmax_default", softmax_default(gpu.stream(), gpu_x.at(), gpu_out.at(), rows, columns, stride));
    };

    std::printf("Softmax in C++ on %s: %d rows of %d float32, error as a part of the value\n", gpu.name().c_str(), rows,
                columns);
    launch();
    const std::vector<float> out = gpu_out.download(gpu);
    double largest = 0.0;
    for (std::size_t row = 0; row < rows; row++) largest = worse(largest, check_row(&x[row * stride], &out[row * columns]));
    const float ms = gpu.time(launch);
    must("unload_softmax", unload_softmax());
    return report("every row", largest, tolerance, ms);
}

}  // namespace

int main() { return run_sample(sample); }
