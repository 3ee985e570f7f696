// What the samples in C++ add to gpu.h: a GPU and memory on it that free themselves.
#ifndef GPU_HPP
#define GPU_HPP

#include "gpu.h"

#include <cstddef>
#include <vector>

class Gpu : public gpu {
public:
    Gpu() : gpu(open_gpu()) {}
    Gpu(const Gpu &) = delete;
    Gpu &operator=(const Gpu &) = delete;
    ~Gpu() { close_gpu(this); }
};

// An array on the GPU.
template <typename T>
class Array {
public:
    explicit Array(std::size_t count) : count_(count), memory_(poisoned(count * sizeof(T))) {}  // for a result
    explicit Array(const std::vector<T> &from) : count_(from.size()), memory_(upload(from.data(), count_ * sizeof(T))) {}
    Array(const Array &) = delete;
    Array &operator=(const Array &) = delete;
    ~Array() { cuMemFree(memory_); }

    operator CUdeviceptr() const { return memory_; }

    std::vector<T> downloaded(const Gpu &gpu) const {
        std::vector<T> to(count_);
        download(&gpu, to.data(), memory_, count_ * sizeof(T));
        return to;
    }

private:
    std::size_t count_;
    CUdeviceptr memory_;
};

#endif
