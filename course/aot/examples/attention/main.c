/* Attention from C. */
#include "problem.h"

static uint16_t q[Q_COUNT], k[K_COUNT], v[K_COUNT], out[Q_COUNT];
static float lse[LSE_COUNT];

int main(void) {
    const struct result computed = {q, k, v, out, lse};
    struct gpu gpu = open_gpu();
    struct arrays arrays;
    float ms;

    fill(q, k, v);
    arrays.q = upload(q, sizeof q);
    arrays.k = upload(k, sizeof k);
    arrays.v = upload(v, sizeof v);
    arrays.out = poisoned(sizeof out);
    arrays.lse = poisoned(sizeof lse);
    printf("Attention in C on %s: %d batches of %d heads, %d queries and %d keys of %d float16, causal\n",
           gpu.name, BATCH, HEADS, QUERIES, KEYS, HEAD_DIM);
    must("attention_default", launch(gpu.stream, &arrays));
    download(&gpu, out, arrays.out, sizeof out);
    download(&gpu, lse, arrays.lse, sizeof lse);
    ms = median_ms(&gpu, launch, &arrays);

    must("cuMemFree", cuMemFree(arrays.q));
    must("cuMemFree", cuMemFree(arrays.k));
    must("cuMemFree", cuMemFree(arrays.v));
    must("cuMemFree", cuMemFree(arrays.out));
    must("cuMemFree", cuMemFree(arrays.lse));
    must("unload_attention", unload_attention());
    close_gpu(&gpu);
    return report_both(&computed, ms);
}
