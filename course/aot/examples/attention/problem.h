/*
 * Attention: out[m] = sum over n of softmax(scale * q[m] . k[n]) * v[n] under a causal mask, float16, by a kernel that was
 * written in Triton and exported. BLOCK_M and BLOCK_N are the kernel's own; the Makefile hands them on. Here are its inputs,
 * its launch and what is right, for main.c and main.cpp.
 */
#include "gpu.h"
#include "attention.h"

#include <string.h>

/* Query m sees the keys n <= m + KEYS - QUERIES: the last query sees all. */
enum { BATCH = 2, HEADS = 3, QUERIES = 200, KEYS = 333, HEAD_DIM = 64 };
/* Tensors are [BATCH, length, HEADS, HEAD_DIM], as the layers of a network have it: a row holds all heads. */
enum { ROW = HEADS * HEAD_DIM, Q_COUNT = BATCH * QUERIES * ROW, K_COUNT = BATCH * KEYS * ROW };
enum { LSE_ROW = (QUERIES + 127) / 128 * 128 }; /* how far the rows of lse are apart: callers may round up */
enum { LSE_COUNT = BATCH * HEADS * LSE_ROW };
static const float SCALE = 0.125f;              /* HEAD_DIM ** -0.5 */

/* Every weight and every result is rounded to float16, by 2^-11 of itself at most, and |v| < 1: twice 2^-11, at the worst. */
static const double TOLERANCE = 1e-3;
/* For the logarithm of the sum: tensor cores add the products of a score in float32, and cut bits off where they do. */
static const double LSE_TOLERANCE = 1e-4;

/* On the GPU. */
struct arrays {
    CUdeviceptr q, k, v, out, lse;
};

/* On the host: what was computed, and from what. */
struct result {
    const uint16_t *q, *k, *v, *out;
    const float *lse;
};

/* The bits of a number that float16 holds exactly and that is at least 2^-14. */
static inline uint16_t half_bits(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return (uint16_t)((bits >> 16 & 0x8000) | ((bits & 0x7fffffff) - 0x38000000) >> 13);
}

static inline double half_value(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value;
    if (exponent == 31) value = fraction ? NAN : INFINITY;
    else value = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return bits & 0x8000 ? -value : value;
}

static inline void fill_halves(uint16_t *numbers, size_t count, uint32_t state, float unit) {
    size_t index;
    for (index = 0; index < count; index++) numbers[index] = half_bits((float)next_odd(&state, 11) / unit);
}

static inline void fill(uint16_t *q, uint16_t *k, uint16_t *v) {
    fill_halves(q, Q_COUNT, 3, 512); /* between -2 and 2 */
    fill_halves(k, K_COUNT, 4, 512);
    fill_halves(v, K_COUNT, 5, 1024); /* between -1 and 1 */
}

static inline CUresult launch(CUstream stream, const void *given) {
    const struct arrays *at = (const struct arrays *)given;
    return attention_default(stream, at->q, at->k, at->v, at->out, at->lse, 0, SCALE, BATCH, HEADS,
                             /* from batch to batch, head to head, row to row: of q, k, v and out */
                             QUERIES * ROW, HEAD_DIM, ROW,
                             KEYS * ROW, HEAD_DIM, ROW,
                             KEYS * ROW, HEAD_DIM, ROW,
                             QUERIES * ROW, HEAD_DIM, ROW,
                             QUERIES, KEYS, LSE_ROW, HEAD_DIM,
                             QUERIES % BLOCK_M == 0, KEYS % BLOCK_N == 0, 1);
}

/* Compares one query's row of a head with the plain loops, in double. */
static inline void check_query(const struct result *computed, int batch, int head, int query, double *largest,
                               double *largest_lse) {
    const size_t at_query = ((size_t)batch * QUERIES + query) * ROW + head * HEAD_DIM;
    const size_t at_keys = (size_t)batch * KEYS * ROW + head * HEAD_DIM;
    const int visible = query + KEYS - QUERIES + 1;
    double scores[KEYS], maximum = -INFINITY, sum = 0.0;
    int key, d;
    for (key = 0; key < visible; key++) {
        double dot = 0.0;
        for (d = 0; d < HEAD_DIM; d++)
            dot += half_value(computed->q[at_query + d]) * half_value(computed->k[at_keys + (size_t)key * ROW + d]);
        scores[key] = (double)SCALE * dot;
        maximum = fmax(maximum, scores[key]);
    }
    for (key = 0; key < visible; key++) sum += scores[key] = exp(scores[key] - maximum);
    for (d = 0; d < HEAD_DIM; d++) {
        double exact = 0.0;
        for (key = 0; key < visible; key++)
            exact += scores[key] / sum * half_value(computed->v[at_keys + (size_t)key * ROW + d]);
        *largest = worse(*largest, fabs(half_value(computed->out[at_query + d]) - exact));
    }
    *largest_lse = worse(*largest_lse,
                         fabs(computed->lse[(batch * HEADS + head) * LSE_ROW + query] - (maximum + log(sum))));
}

static inline enum ending report_both(const struct result *computed, float ms) {
    double largest = 0.0, largest_lse = 0.0;
    enum ending out, lse;
    int row;
    for (row = 0; row < BATCH * HEADS * QUERIES; row++)
        check_query(computed, row / QUERIES / HEADS, row / QUERIES % HEADS, row % QUERIES, &largest, &largest_lse);
    out = report("out", largest, TOLERANCE, ms);
    lse = report("logarithm of the sum", largest_lse, LSE_TOLERANCE, ms);
    return out != AGREES ? out : lse;
}
