{{ first_line }}
#include "{{ header_name }}"

#include <pthread.h>
#include <string.h>

{% for helper in helpers %}
{{ helper }}
{% endfor %}
static const unsigned char cubin[] __attribute__((aligned(16))) = {
{% for line in code | batch(24) %}
    {{ line | join(",") }},
{% endfor %}
};

{% if asks_for_shared %}
/* More than 48 KB of shared memory must be allowed, on each device that can run this code. */
static CUresult allow_shared(CUkernel allowed) {
    int devices = 0, index;
    CUresult result = cuDeviceGetCount(&devices);
    for (index = 0; result == CUDA_SUCCESS && index < devices; index++) {
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
        if (result == CUDA_SUCCESS && major == {{ capability // 10 }} && minor >= {{ capability % 10 }} &&
            most >= {{ function.shared_bytes }})
            result = cuKernelSetAttribute(
                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, {{ function.shared_bytes }}, allowed, device);
    }
    return result;
}

{% endif %}
/* The kernel, once it is loaded: for every device and context of this process. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUlibrary library = NULL;
static CUkernel kernel = NULL;

/* Holds the lock. */
static CUresult load(void) {
    CUlibrary loaded;
    CUkernel found;
    CUresult result;
    if (kernel != NULL) return CUDA_SUCCESS;
    result = cuLibraryLoadData(&loaded, cubin, NULL, NULL, 0, NULL, NULL, 0);
    if (result != CUDA_SUCCESS) return result;
    result = cuLibraryGetKernel(&found, loaded, "{{ symbol }}");
{% if asks_for_shared %}
    if (result == CUDA_SUCCESS) result = allow_shared(found);
{% endif %}
    if (result != CUDA_SUCCESS) {
        cuLibraryUnload(loaded);
        return result;
    }
    library = loaded;
    kernel = found;
    return CUDA_SUCCESS;
}

CUresult load_{{ function.name }}(void) {
    CUresult result;
    pthread_mutex_lock(&lock);
    result = load();
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult unload_{{ function.name }}(void) {
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (kernel != NULL) {
        result = cuLibraryUnload(library);
        library = NULL;
        kernel = NULL;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* Grid: {{ grid | string | comment }} */
{{ function.prototype }} {
{% if broken %}
    if ({{ broken }}) return CUDA_ERROR_INVALID_VALUE;
{% endif %}
    CUresult result;
    CUkernel loaded;
    int bad = 0;
    int64_t grid_x = {{ grid.x.c }};
    int64_t grid_y = {{ grid.y.c }};
    int64_t grid_z = {{ grid.z.c }};
{% for name, c_type, bits in converted %}
    {{ c_type }} bits_{{ name }} = {{ bits }};
{% endfor %}
{% for name in scratch %}
    CUdeviceptr {{ name }} = 0; /* Triton's own: this kernel needs none */
{% endfor %}
    void *arguments[] = { {{- pointers | join(", ") -}} };
    if (bad || grid_x < 0 || grid_y < 0 || grid_z < 0) return CUDA_ERROR_INVALID_VALUE;
    if (grid_x > {{ most[0] }} || grid_y > {{ most[1] }} || grid_z > {{ most[2] }})
        return CUDA_ERROR_INVALID_VALUE;
    if (grid_x == 0 || grid_y == 0 || grid_z == 0) return CUDA_SUCCESS;
    pthread_mutex_lock(&lock); /* tens of nanoseconds where nobody else holds it */
    result = load();
    loaded = kernel;
    pthread_mutex_unlock(&lock);
    if (result != CUDA_SUCCESS) return result;
    return cuLaunchKernel((CUfunction)loaded, (unsigned)grid_x, (unsigned)grid_y, (unsigned)grid_z,
                          {{ function.threads }}, 1, 1, {{ function.shared_bytes }}, stream, arguments, NULL);
}
