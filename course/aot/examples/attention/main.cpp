// Attention from C++: out[m] = sum over n of softmax(scale * q[m] . k[n]) * v[n] under a causal mask, float16, by a kernel
// that was written in Triton and exported. BLOCK_M and BLOCK_N are the kernel's own; the Makefile hands them on.
#include "gpu.hpp"
#include "attention.h"

#include <cstring>
#include <limits>

namespace {

// Query m sees the keys n <= m + keys - queries: the last query sees all.
constexpr int batches = 2, heads = 3, queries = 200, keys = 333, head_dim = 64;
constexpr int lse_row = (queries + 127) / 128 * 128;  // how far the rows of lse are apart: callers may round up
constexpr float scale = 0.125f;                       // head_dim ** -0.5

// Every weight and every result is rounded to float16, by 2^-11 of itself at most, and |v| < 1: twice 2^-11, at the worst.
constexpr double tolerance = 1e-3;
// Of the logarithm of the sum: tensor cores add the products of a score in float32, and cut bits off where they do.
constexpr double lse_tolerance = 1e-4;

// A number in half precision.
struct Half {
    std::uint16_t bits;

    Half() = default;
    // Of a number that float16 holds exactly and that is at least 2^-14.
    explicit Half(float number) {
        std::uint32_t whole;
        std::memcpy(&whole, &number, sizeof whole);
        bits = static_cast<std::uint16_t>((whole >> 16 & 0x8000) | ((whole & 0x7fffffff) - 0x38000000) >> 13);
    }
    operator double() const {
        const int exponent = bits >> 10 & 31, fraction = bits & 1023;
        double value;
        if (exponent == 31)
            value = fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
        else
            value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
        return bits & 0x8000 ? -value : value;
    }
};
static_assert(sizeof(Half) == 2, "the GPU reads two bytes a number");

// [batches, length, heads, head_dim], as the layers of a network have it: a row holds all heads.
class Tensor {
public:
    Tensor(int length, std::vector<Half> numbers) : length_(length), numbers_(std::move(numbers)) {}

    static Tensor made(int length, std::uint32_t state, float unit) {
        std::vector<Half> numbers(std::size_t{batches} * length * heads * head_dim);
        Odd odd(state);
        for (Half &each : numbers) each = Half(static_cast<float>(odd.next(11)) / unit);
        return {length, std::move(numbers)};
    }
    const std::vector<Half> &numbers() const { return numbers_; }
    const Half *row(int batch, int head, int row) const {
        return &numbers_[std::size_t{head_dim} * ((batch * length_ + row) * heads + head)];
    }

private:
    int length_;
    std::vector<Half> numbers_;
};

struct Errors {
    double out = 0.0, lse = 0.0;
};

// Compares one query's row with the plain loops, in double.
void check_query(const Tensor &q, const Tensor &k, const Tensor &v, const Tensor &out, float lse, int batch, int head, int row,
                 Errors &largest) {
    const int seen = row + keys - queries + 1;
    std::vector<double> weights(seen);
    for (int key = 0; key < seen; key++) {
        double dot = 0.0;
        for (int at = 0; at < head_dim; at++) dot += q.row(batch, head, row)[at] * k.row(batch, head, key)[at];
        weights[key] = static_cast<double>(scale) * dot;
    }
    const double maximum = *std::max_element(weights.begin(), weights.end());
    double sum = 0.0;
    for (double &each : weights) sum += each = std::exp(each - maximum);
    for (int at = 0; at < head_dim; at++) {
        double exact = 0.0;
        for (int key = 0; key < seen; key++) exact += weights[key] / sum * v.row(batch, head, key)[at];
        largest.out = worse(largest.out, std::fabs(out.row(batch, head, row)[at] - exact));
    }
    largest.lse = worse(largest.lse, std::fabs(lse - (maximum + std::log(sum))));
}

int sample() {
    const Gpu gpu;
    const Tensor q = Tensor::made(queries, 3, 512), k = Tensor::made(keys, 4, 512);  // between -2 and 2
    const Tensor v = Tensor::made(keys, 5, 1024);                                    // between -1 and 1
    const Array<Half> gpu_q(q.numbers()), gpu_k(k.numbers()), gpu_v(v.numbers()), gpu_out(q.numbers().size());
    const Array<float> gpu_lse(std::size_t{batches} * heads * lse_row);
    const auto launch = [&] {
        must("attention_default",
             attention_default(gpu.stream(), gpu_q.at(), gpu_k.at(), gpu_v.at(), gpu_out.at(), gpu_lse.at(), 0, scale,
                               batches, heads,
                               // from batch to batch, head to head, row to row: of q, k, v and out
                               queries * heads * head_dim, head_dim, heads * head_dim,
                               keys * heads * head_dim, head_dim, heads * head_dim,
                               keys * heads * head_dim, head_dim, heads * head_dim,
                               queries * heads * head_dim, head_dim, heads * head_dim,
                               queries, keys, lse_row, head_dim,
                               queries % BLOCK_M == 0, keys % BLOCK_N == 0, 1));
    };

    std::printf("Attention in C++ on %s: %d batches of %d heads, %d queries and %d keys of %d float16, causal\n",
                gpu.name().c_str(), batches, heads, queries, keys, head_dim);
    launch();
    const Tensor out(queries, gpu_out.download(gpu));
    const std::vector<float> lse = gpu_lse.download(gpu);
    Errors largest;
    for (int batch = 0; batch < batches; batch++)
        for (int head = 0; head < heads; head++)
            for (int row = 0; row < queries; row++)
                check_query(q, k, v, out, lse[std::size_t{lse_row} * (batch * heads + head) + row], batch, head, row, largest);
    const float ms = gpu.time(launch);
    must("unload_attention", unload_attention());
    const Ending ending = report("out", largest.out, tolerance, ms);
    const Ending other = report("logarithm of the sum", largest.lse, lse_tolerance, ms);
    return ending != agrees ? ending : other;
}

}  // namespace

int main() { return run_sample(sample); }
