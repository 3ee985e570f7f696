"""Pieces of C99 that exported functions are made of."""

HEADER = """\
{first_line}
{manifest}
#ifndef COURSE_AOT_{name}_H
#define COURSE_AOT_{name}_H

#include <cuda.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{declarations}

/*
 * May be called in any order, repeatedly and by any thread; unload while no launch is under way.
 * {loading}
 */
CUresult load_{name}(void);
CUresult unload_{name}(void);

#ifdef __cplusplus
}}
#endif

#endif
"""

GRID = {
    "grid_add": """\
static int64_t grid_add(int64_t a, int64_t b, int *bad) {
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) { *bad = 1; return 0; }
    return a + b;
}
""",
    "grid_subtract": """\
static int64_t grid_subtract(int64_t a, int64_t b, int *bad) {
    if (b < 0 ? a > INT64_MAX + b : a < INT64_MIN + b) { *bad = 1; return 0; }
    return a - b;
}
""",
    "grid_multiply": """\
static int64_t grid_multiply(int64_t a, int64_t b, int *bad) {
    if (a == 0 || b == 0) return 0;
    if (a > 0 ? (b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a)
              : (b > 0 ? a < INT64_MIN / b : b < INT64_MAX / a)) { *bad = 1; return 0; }
    return a * b;
}
""",
    "grid_divide": """\
static int64_t grid_divide(int64_t a, int64_t b, int *bad) {
    if (b == 0 || (a == INT64_MIN && b == -1)) { *bad = 1; return 0; }
    return a / b;
}
""",
    "grid_modulo": """\
static int64_t grid_modulo(int64_t a, int64_t b, int *bad) {
    if (b == 0 || (a == INT64_MIN && b == -1)) { *bad = 1; return 0; }
    return a % b;
}
""",
    "grid_cdiv": """\
static int64_t grid_cdiv(int64_t a, int64_t b, int *bad) {
    if (a < 0 || b <= 0) { *bad = 1; return 0; }
    return a / b + (a % b != 0);
}
""",
    "grid_unsigned": """\
static int64_t grid_unsigned(uint64_t a, int *bad) {
    if (a > (uint64_t)INT64_MAX) { *bad = 1; return 0; }
    return (int64_t)a;
}
""",
}
"""The arithmetic of grids: in 64 bits, and a step without a result sets *bad."""

BITS = {
    "fp16": """\
/* The bits of the half-precision number nearest to `number`; of the even one of two. */
static uint16_t fp16_bits(float number) {
    uint32_t bits, magnitude, value, rest, half;
    uint16_t sign;
    memcpy(&bits, &number, sizeof bits);
    sign = (uint16_t)(bits >> 16 & 0x8000);
    magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) /* NaN */
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x1ff));
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65,520 and more: infinity */
    if (magnitude < 0x38800000) {                 /* below 2^-14 they are multiples of 2^-24 */
        uint32_t shift = 126 - (magnitude >> 23); /* from units of 2^(exponent - 150) to such */
        if (shift > 24) return sign;
        value = (magnitude & 0x7fffff) | 0x800000;
        half = (uint32_t)1 << (shift - 1);
        rest = value & (2 * half - 1);
        value >>= shift;
    } else { /* 13 bits fewer, and an exponent that begins at 127 - 15 */
        value = (magnitude - 0x38000000) >> 13;
        rest = magnitude & 0x1fff;
        half = 0x1000;
    }
    /* May carry into the exponent, as it should. */
    value += rest > half || (rest == half && (value & 1));
    return (uint16_t)(sign | value);
}
""",
    "bf16": """\
/* The bits of the bfloat16 number nearest to `number`; of the even one of two. */
static uint16_t bf16_bits(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40); /* NaN */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
""",
}
"""By type of an argument: what makes its bits of a float."""

SHARED = """\
/* More than 48 KB of shared memory must be allowed, on each device that can run this code. */
static CUresult allow_shared(CUkernel allowed) {{
    int devices = 0, index;
    CUresult result = cuDeviceGetCount(&devices);
    for (index = 0; result == CUDA_SUCCESS && index < devices; index++) {{
        CUdevice device;
        int major = 0, minor = 0, most = 0;
        result = cuDeviceGet(&device, index);
        if (result == CUDA_SUCCESS)
            result = cuDeviceGetAttribute(
                &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
        if (result == CUDA_SUCCESS)
            result = cuDeviceGetAttribute(
                &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
        if (result == CUDA_SUCCESS)
            result = cuDeviceGetAttribute(
                &most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);
        if (result == CUDA_SUCCESS && major == {major} && minor >= {minor} && most >= {shared})
            result = cuKernelSetAttribute(
                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, {shared}, allowed, device);
    }}
    return result;
}}

"""

LOADING = """\
/* The kernel, once it is loaded: for every device and context of this process. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUlibrary library = NULL;
static CUkernel kernel = NULL;

/* Holds the lock. */
static CUresult load(void) {{
    CUlibrary loaded;
    CUkernel found;
    CUresult result;
    if (kernel != NULL) return CUDA_SUCCESS;
    result = cuLibraryLoadData(&loaded, cubin, NULL, NULL, 0, NULL, NULL, 0);
    if (result != CUDA_SUCCESS) return result;
    result = cuLibraryGetKernel(&found, loaded, "{symbol}");
{allow}    if (result != CUDA_SUCCESS) {{
        cuLibraryUnload(loaded);
        return result;
    }}
    library = loaded;
    kernel = found;
    return CUDA_SUCCESS;
}}

CUresult load_{name}(void) {{
    CUresult result;
    pthread_mutex_lock(&lock);
    result = load();
    pthread_mutex_unlock(&lock);
    return result;
}}

CUresult unload_{name}(void) {{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (kernel != NULL) {{
        result = cuLibraryUnload(library);
        library = NULL;
        kernel = NULL;
    }}
    pthread_mutex_unlock(&lock);
    return result;
}}
"""

LAUNCH = """\
/* Grid: {grid} */
{prototype} {{
{hints}    CUresult result;
    CUkernel loaded;
    int bad = 0;
    int64_t grid_x = {x};
    int64_t grid_y = {y};
    int64_t grid_z = {z};
{bits}{scratch}    void *arguments[] = {{{pointers}}};
    if (bad || grid_x < 0 || grid_y < 0 || grid_z < 0) return CUDA_ERROR_INVALID_VALUE;
    if (grid_x > {most_x} || grid_y > {most_y} || grid_z > {most_z})
        return CUDA_ERROR_INVALID_VALUE;
    if (grid_x == 0 || grid_y == 0 || grid_z == 0) return CUDA_SUCCESS;
    pthread_mutex_lock(&lock); /* tens of nanoseconds where nobody else holds it */
    result = load();
    loaded = kernel;
    pthread_mutex_unlock(&lock);
    if (result != CUDA_SUCCESS) return result;
    return cuLaunchKernel((CUfunction)loaded, (unsigned)grid_x, (unsigned)grid_y, (unsigned)grid_z,
                          {threads}, 1, 1, {shared}, stream, arguments, NULL);
}}
"""
