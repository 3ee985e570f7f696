// Attention from C++.
#include "gpu.hpp"
#include "problem.h"

int main() {
    const Gpu gpu;
    std::vector<uint16_t> q(Q_COUNT), k(K_COUNT), v(K_COUNT);
    fill(q.data(), k.data(), v.data());
    const Array<uint16_t> gpu_q(q), gpu_k(k), gpu_v(v), gpu_out(Q_COUNT);
    const Array<float> gpu_lse(LSE_COUNT);
    const arrays given{gpu_q, gpu_k, gpu_v, gpu_out, gpu_lse};
    printf("Attention in C++ on %s: %d batches of %d heads, %d queries and %d keys of %d float16, causal\n",
           gpu.name, BATCH, HEADS, QUERIES, KEYS, HEAD_DIM);
    must("attention_default", launch(gpu.stream, &given));
    const std::vector<uint16_t> out = gpu_out.downloaded(gpu);
    const std::vector<float> lse = gpu_lse.downloaded(gpu);
    const float ms = median_ms(&gpu, launch, &given);
    must("unload_attention", unload_attention());
    const result computed{q.data(), k.data(), v.data(), out.data(), lse.data()};
    return report_both(&computed, ms);
}
