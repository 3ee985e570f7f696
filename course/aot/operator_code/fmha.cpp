// torch.ops.course.fmha(q, k, v, scale, causal) -> (out, lse): attention by exported kernels, on PyTorch's current stream.
//
// It is written against PyTorch's stable ABI: what it calls of PyTorch are C functions that keep their meaning, so one build
// serves every PyTorch from 2.10 on. variants.h is written at the export: it says which kernels there are.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "driver.h"
#include "variants.h"

namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

constexpr int64_t most_length = int64_t{1} << 30;  // beyond, the kernel's 32-bit lengths could overflow
constexpr int64_t most_in_grid = 65535;            // programs along a grid's second and third axis
constexpr int64_t vector_elements = 16;            // rows begin at multiples of so many: the kernels load 16 bytes at once

using Launch = decltype(FMHA_FIRST);

// Kernels for a dtype and a head dimension: algorithm `plain` of a linked function, and after it the one under a causal mask.
struct Variant {
    ScalarType dtype;
    int64_t head_dim;
    int plain;
    Launch *launch;
};

constexpr Variant variants[] = {FMHA_VARIANTS};

template <typename... Words>
[[noreturn]] void refuse(const Words &...words) {
    std::ostringstream text;
    text << "fmha: ";
    ((text << words), ...);
    throw std::runtime_error(text.str());
}

void must(const char *call, CUresult result) {
    if (result == CUDA_SUCCESS) return;
    const char *name = nullptr;
    cuGetErrorName(result, &name);
    refuse(call, " returned ", name ? name : "an error without a name", ".");
}

std::string head_dims_of(ScalarType dtype) {
    std::string text;
    for (const Variant &each : variants)
        if (each.dtype == dtype) text += (text.empty() ? "" : " and ") + std::to_string(each.head_dim);
    return text;
}

const Variant &variant_for(ScalarType dtype, int64_t head_dim) {
    for (const Variant &each : variants)
        if (each.dtype == dtype && each.head_dim == head_dim) return each;
    const std::string there = head_dims_of(dtype);
    if (there.empty()) refuse("q has a dtype that this build has no kernel for; it was built for ", FMHA_DTYPES, ".");
    refuse("q has a head_dim of ", head_dim, ", and this build has kernels for ", there, ".");
}

// How far one index of an axis is from the next; 0 where there is no next, and the stride may be any number.
int64_t step(const Tensor &x, int64_t axis) { return x.size(axis) == 1 ? 0 : x.stride(axis); }

// What must hold of each input by itself.
void check(const char *name, const Tensor &x) {
    if (!x.is_cuda() && !(x.is_cpu() && fake_driver_is_loaded()))
        refuse(name, x.is_cpu() ? " is on the CPU" : " is on no CUDA device", ", and must be on a CUDA device: call .cuda().");
    if (x.dim() != 4) refuse(name, " has ", x.dim(), " dimensions, and must have 4: batch, heads, length, head_dim.");
    if (x.stride(3) != 1)
        refuse(name, " has a last stride of ", x.stride(3), ", and must have 1: call .contiguous().");
    for (int64_t axis = 0; axis < 3; axis++)
        if (step(x, axis) % vector_elements != 0)
            refuse(name, " has a stride of ", x.stride(axis), ", and must have multiples of ", vector_elements,
                   ": call .contiguous().");
    if (reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 16 != 0)
        refuse(name, " begins at an address that is no multiple of 16: call .clone().");
    if (x.size(2) > most_length) refuse(name, " has a length of ", x.size(2), ", and at most ", most_length, " is possible.");
}

// What must hold between two.
void check_alike(const char *name, const Tensor &x, const char *other_name, const Tensor &other, bool lengths) {
    if (x.scalar_type() != other.scalar_type()) refuse(name, " and ", other_name, " have different dtypes.");
    if (x.is_cuda() != other.is_cuda() || x.get_device_index() != other.get_device_index())
        refuse(name, " and ", other_name, " are on different devices.");
    for (int64_t axis = 0; axis < 4; axis++)
        if (x.size(axis) != other.size(axis) && (lengths || axis != 2))
            refuse(name, " has a size of ", x.size(axis), " along dimension ", axis, " and ", other_name, " of ",
                   other.size(axis), "; both must have the same.");
}

// PyTorch's current stream. CPU builds of PyTorch lack the function, so it is looked up and not linked.
CUstream current_stream(int32_t device) {
    using Get = AOTITorchError(int32_t, void **);
    static Get *const get = [] {
        constexpr const char *name = "aoti_torch_get_current_cuda_stream";
        void *found = dlsym(RTLD_DEFAULT, name);
        if (found == nullptr)  // Python loads PyTorch's libraries without showing them to others
            if (void *library = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD)) found = dlsym(library, name);
        return reinterpret_cast<Get *>(found);
    }();
    void *stream = nullptr;
    if (get == nullptr) refuse("this PyTorch was built without CUDA: install one that was built with it.");
    if (get(device, &stream) != 0) refuse("PyTorch did not tell its current stream of device ", device, ".");
    return static_cast<CUstream>(stream);
}

// Has a device's primary context, which is PyTorch's, be this thread's: a new thread has none.
class Context {
public:
    explicit Context(int32_t index) {
        CUcontext context;
        must("cuDeviceGet", cuDeviceGet(&device_, index));
        must("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device_));
        const CUresult result = cuCtxPushCurrent(context);
        if (result != CUDA_SUCCESS) cuDevicePrimaryCtxRelease(device_);
        must("cuCtxPushCurrent", result);
    }
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;
    ~Context() {
        CUcontext context;
        cuCtxPopCurrent(&context);
        cuDevicePrimaryCtxRelease(device_);
    }

private:
    CUdevice device_;
};

// The kernels of this library, loaded. Never unloaded: when a process ends, the driver may be gone before static objects are.
class Fmha {
public:
    Fmha() {
        if (open_driver() == NO_DRIVER) refuse("NVIDIA's driver library libcuda.so.1 is not on this machine.");
        must("cuInit", cuInit(0));
        FMHA_LOAD(must)
    }

    std::tuple<Tensor, Tensor> operator()(const Tensor &q, const Tensor &k, const Tensor &v, double scale, bool causal) const {
        const Variant &variant = variant_for(q.scalar_type(), q.size(3));
        const int64_t batch = q.size(0), heads = q.size(1), queries = q.size(2), keys = k.size(2), head_dim = q.size(3);
        const std::vector<int64_t> sizes{batch, heads, queries, head_dim}, rows{batch, heads, queries};
        const Tensor out = torch::stable::new_empty(q, sizes);
        const Tensor lse = torch::stable::new_empty(q, rows, ScalarType::Float);
        const bool fake_driver = open_driver() == FAKE_DRIVER;
        const int32_t device = fake_driver ? 0 : q.get_device_index();
        const Context context(device);
        must("the launch",
             variant.launch(fake_driver ? nullptr : current_stream(device), at(q), at(k), at(v), at(out), at(lse), 0,
                            static_cast<float>(scale), static_cast<int32_t>(batch), static_cast<int32_t>(heads),
                            step(q, 0), step(q, 1), step(q, 2), step(k, 0), step(k, 1), step(k, 2),
                            step(v, 0), step(v, 1), step(v, 2), step(out, 0), step(out, 1), step(out, 2),
                            static_cast<int32_t>(queries), static_cast<int32_t>(keys), static_cast<int32_t>(queries),
                            static_cast<int32_t>(head_dim), variant.plain + (causal ? 1 : 0)));
        return {out, lse};
    }

private:
    static CUdeviceptr at(const Tensor &x) { return reinterpret_cast<std::uintptr_t>(x.data_ptr()); }
};

std::tuple<Tensor, Tensor> fmha(Tensor q, Tensor k, Tensor v, double scale, bool causal) {
    check("q", q);
    check("k", k);
    check("v", v);
    check_alike("q", q, "k", k, false);
    check_alike("k", k, "v", v, true);
    variant_for(q.scalar_type(), q.size(3));
    if (q.size(0) > most_in_grid || q.size(1) > most_in_grid)
        refuse("q has ", q.size(0), " batches of ", q.size(1), " heads, and at most ", most_in_grid, " of each are possible.");
    const float rounded = static_cast<float>(scale);  // what the kernel is handed
    if (!(rounded > 0.0f) || std::isinf(rounded)) refuse("scale is ", scale, ", and must be positive and finite.");
    static const Fmha loaded;
    return loaded(q, k, v, scale, causal);
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(course, library) {
    library.def("fmha(Tensor q, Tensor k, Tensor v, float scale, bool causal) -> (Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(course, CUDA, library) { library.impl("fmha", TORCH_BOX(&fmha)); }

// For the fake driver, and so that tensors on the CPU are refused in one sentence.
STABLE_TORCH_LIBRARY_IMPL(course, CPU, library) { library.impl("fmha", TORCH_BOX(&fmha)); }
