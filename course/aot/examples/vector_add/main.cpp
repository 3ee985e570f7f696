// Vector add from C++: out = x + y in float32, by a kernel that was written in Triton and exported.
//
// The linked function has two variants. One loads 16 bytes at once and relies on addresses and a length that are
// multiples of 16; the other takes any. Which one runs is decided at each launch: here once for whole arrays, once from
// element 1 on.
#include "gpu.hpp"
#include "vector_add.h"

namespace {

constexpr int count = 1000000;
// Of the exact sum: half a unit in the last place of float32's 24 bits, since it is rounded once.
constexpr double tolerance = 1.0 / (1 << 24);

Ending add(const Gpu &gpu, const char *what, const std::vector<float> &x, const std::vector<float> &y, int first) {
    const Array<float> gpu_x(x), gpu_y(y), gpu_out(x.size());
    const auto launch = [&] {
        must("vector_add_default",
             vector_add_default(gpu.stream(), gpu_x.at(first), gpu_y.at(first), gpu_out.at(first), count - first));
    };
    launch();
    const std::vector<float> out = gpu_out.download(gpu);
    double largest = 0.0;
    for (std::size_t index = first; index < out.size(); index++) {
        const double exact = static_cast<double>(x[index]) + y[index];
        const double error = std::fabs(out[index] - exact);
        largest = worse(largest, exact == 0.0 ? error : error / std::fabs(exact));
    }
    return report(what, largest, tolerance, gpu.time(launch));
}

int sample() {
    const Gpu gpu;
    std::vector<float> x(count), y(count);
    Odd odd(1);
    for (int index = 0; index < count; index++) {
        x[index] = static_cast<float>(odd.next(24)) / (1 << 20);  // between -8 and 8
        y[index] = static_cast<float>(odd.next(24)) / (1 << 14);  // between -512 and 512: the sum has to be rounded
    }
    std::printf("Vector add in C++ on %s: %d elements of float32, error as a part of the sum\n", gpu.name().c_str(), count);
    const Ending whole = add(gpu, "aligned", x, y, 0);
    const Ending rest = add(gpu, "from element 1 on", x, y, 1);
    must("unload_vector_add", unload_vector_add());
    return whole != agrees ? whole : rest;
}

}  // namespace

int main() { return run_sample(sample); }
