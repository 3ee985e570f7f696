/*
 * Attention from C: out[m] = sum over n of softmax(scale * q[m] . k[n]) * v[n] under a causal mask, float16, by a kernel that
 * was written in Triton and exported. BLOCK_M and BLOCK_N are the kernel's own; the Makefile hands them on.
 */
#include "gpu.h"
#include "attention.h"

#include <string.h>

/* Query m sees the keys n <= m + KEYS - QUERIES: the last query sees all. */
enum { BATCH = 2, HEADS = 3, QUERIES = 200, KEYS = 333, HEAD_DIM = 64 };
enum { LSE_ROW = (QUERIES + 127) / 128 * 128 }; /* how far the rows of lse are apart: callers may round up */
static const float SCALE = 0.125f;              /* HEAD_DIM ** -0.5 */

/* Every weight and every result is rounded to float16, by 2^-11 of itself at most, and |v| < 1: twice 2^-11, at the worst. */
static const double TOLERANCE = 1e-3;
/* Of the logarithm of the sum: tensor cores add the products of a score in float32, and cut bits off where they do. */
static const double LSE_TOLERANCE = 1e-4;

/* Of a number that float16 holds exactly and that is at least 2^-14. */
static uint16_t half_bits(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return (uint16_t)((bits >> 16 & 0x8000) | ((bits & 0x7fffffff) - 0x38000000) >> 13);
}

static double half_value(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value;
    if (exponent == 31) value = fraction ? NAN : INFINITY;
    else value = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return bits & 0x8000 ? -value : value;
}

/* [BATCH, length, HEADS, HEAD_DIM], as the layers of a network have it: a row holds all heads. */
static size_t row_at(int length, int batch, int head, int row) {
    return (((size_t)batch * length + row) * HEADS + head) * HEAD_DIM;
}

static uint16_t *numbers(int length, uint32_t state, int unit) {
    const size_t count = row_at(length, BATCH, 0, 0);
    uint16_t *made = host_memory(count * sizeof *made);
    size_t index;
    for (index = 0; index < count; index++) made[index] = half_bits((float)next_odd(&state, 11) / (float)unit);
    return made;
}

static double dot(const uint16_t *a, const uint16_t *b) {
    double sum = 0.0;
    int at;
    for (at = 0; at < HEAD_DIM; at++) sum += half_value(a[at]) * half_value(b[at]);
    return sum;
}

/* Compares one query's row with the plain loops, in double. */
static void check_query(const uint16_t *q, const uint16_t *k, const uint16_t *v, const uint16_t *out, float lse,
                        int seen, double *largest, double *largest_lse) {
    double scores[KEYS], maximum = -INFINITY, sum = 0.0;
    int key, at;
    for (key = 0; key < seen; key++) {
        scores[key] = (double)SCALE * dot(q, k + (size_t)key * HEADS * HEAD_DIM);
        maximum = fmax(maximum, scores[key]);
    }
    for (key = 0; key < seen; key++) sum += scores[key] = exp(scores[key] - maximum);
    for (at = 0; at < HEAD_DIM; at++) {
        double exact = 0.0;
        for (key = 0; key < seen; key++) exact += scores[key] / sum * half_value(v[(size_t)key * HEADS * HEAD_DIM + at]);
        *largest = worse(*largest, fabs(half_value(out[at]) - exact));
    }
    *largest_lse = worse(*largest_lse, fabs(lse - (maximum + log(sum))));
}

static CUresult launch(CUstream stream, CUdeviceptr q, CUdeviceptr k, CUdeviceptr v, CUdeviceptr out, CUdeviceptr lse) {
    return attention_default(stream, q, k, v, out, lse, 0, SCALE, BATCH, HEADS,
                             /* from batch to batch, head to head, row to row: of q, k, v and out */
                             QUERIES * HEADS * HEAD_DIM, HEAD_DIM, HEADS * HEAD_DIM,
                             KEYS * HEADS * HEAD_DIM, HEAD_DIM, HEADS * HEAD_DIM,
                             KEYS * HEADS * HEAD_DIM, HEAD_DIM, HEADS * HEAD_DIM,
                             QUERIES * HEADS * HEAD_DIM, HEAD_DIM, HEADS * HEAD_DIM,
                             QUERIES, KEYS, LSE_ROW, HEAD_DIM,
                             QUERIES % BLOCK_M == 0, KEYS % BLOCK_N == 0, 1);
}

int main(void) {
    struct gpu gpu = open_gpu();
    const size_t q_bytes = row_at(QUERIES, BATCH, 0, 0) * sizeof(uint16_t);
    const size_t k_bytes = row_at(KEYS, BATCH, 0, 0) * sizeof(uint16_t);
    const size_t lse_bytes = sizeof(float) * BATCH * HEADS * LSE_ROW;
    uint16_t *q = numbers(QUERIES, 3, 512), *k = numbers(KEYS, 4, 512); /* between -2 and 2 */
    uint16_t *v = numbers(KEYS, 5, 1024), *out = host_memory(q_bytes);  /* v: between -1 and 1 */
    float *lse = host_memory(lse_bytes), times[RUNS], ms;
    CUdeviceptr gpu_q = upload(q, q_bytes), gpu_k = upload(k, k_bytes), gpu_v = upload(v, k_bytes);
    CUdeviceptr gpu_out = poisoned(q_bytes), gpu_lse = poisoned(lse_bytes);
    double largest = 0.0, largest_lse = 0.0;
    int batch, head, row, index, ending, other;

    printf("Attention in C on %s: %d batches of %d heads, %d queries and %d keys of %d float16, causal\n",
           gpu.name, BATCH, HEADS, QUERIES, KEYS, HEAD_DIM);
    must("attention_default", launch(gpu.stream, gpu_q, gpu_k, gpu_v, gpu_out, gpu_lse));
    download(&gpu, out, gpu_out, q_bytes);
    download(&gpu, lse, gpu_lse, lse_bytes);
    for (batch = 0; batch < BATCH; batch++)
        for (head = 0; head < HEADS; head++)
            for (row = 0; row < QUERIES; row++)
                check_query(q + row_at(QUERIES, batch, head, row), k + row_at(KEYS, batch, head, 0),
                            v + row_at(KEYS, batch, head, 0), out + row_at(QUERIES, batch, head, row),
                            lse[(size_t)(batch * HEADS + head) * LSE_ROW + row], row + KEYS - QUERIES + 1,
                            &largest, &largest_lse);
    for (index = 0; index < RUNS; index++) {
        start_timer(&gpu);
        must("attention_default", launch(gpu.stream, gpu_q, gpu_k, gpu_v, gpu_out, gpu_lse));
        times[index] = stop_timer(&gpu);
    }
    ms = median(times, RUNS);
    ending = report("out", largest, TOLERANCE, ms);
    other = report("logarithm of the sum", largest_lse, LSE_TOLERANCE, ms);

    must("cuMemFree", cuMemFree(gpu_q));
    must("cuMemFree", cuMemFree(gpu_k));
    must("cuMemFree", cuMemFree(gpu_v));
    must("cuMemFree", cuMemFree(gpu_out));
    must("cuMemFree", cuMemFree(gpu_lse));
    free(q);
    free(k);
    free(v);
    free(out);
    free(lse);
    must("unload_attention", unload_attention());
    close_gpu(&gpu);
    return ending != AGREES ? ending : other;
}
