// What the samples in C++ share: a GPU, memory on it, numbers to compute with, a time. Each frees itself; a CUresult that is
// an error is thrown.
#ifndef GPU_HPP
#define GPU_HPP

#include <cuda.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

enum Ending { agrees = 0, failed = 1, differs = 2 };  // of a sample

inline void must(const char *call, CUresult result) {
    if (result == CUDA_SUCCESS) return;
    const char *name = nullptr, *words = nullptr;
    cuGetErrorName(result, &name);
    cuGetErrorString(result, &words);
    throw std::runtime_error(std::string(call) + " returned " + (name ? name : "an unknown error") + ": " +
                             (words ? words : "the driver has no words for it") + ".");
}

// A handle of the driver's, destroyed once. A destructor may not throw: it is an error in ending that goes unsaid.
template <typename Handle, CUresult (*destroy)(Handle)>
class Owned {
public:
    explicit Owned(Handle handle) : handle_(handle) {}
    Owned(const Owned &) = delete;
    Owned &operator=(const Owned &) = delete;
    ~Owned() { destroy(handle_); }
    Handle get() const { return handle_; }

private:
    Handle handle_;
};

// The first GPU. Its primary context is the one that PyTorch and CUDA's runtime use too. A stream of the default kind waits
// for copies and fills, which a non-blocking one would not.
class Gpu {
public:
    CUstream stream() const { return stream_.get(); }

    std::string name() const {
        std::array<char, 128> text{};
        must("cuDeviceGetName", cuDeviceGetName(text.data(), static_cast<int>(text.size()), device_.get()));
        return text.data();
    }

    // The time of a launch in milliseconds: the middle one of some.
    template <typename Launch>
    float time(Launch launch) const {
        std::array<float, 21> times{};
        for (float &ms : times) {
            must("cuEventRecord", cuEventRecord(from_.get(), stream()));
            launch();
            must("cuEventRecord", cuEventRecord(to_.get(), stream()));
            must("cuEventSynchronize", cuEventSynchronize(to_.get()));
            must("cuEventElapsedTime", cuEventElapsedTime(&ms, from_.get(), to_.get()));
        }
        std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
        return times[times.size() / 2];
    }

private:
    static CUdevice open() {
        CUdevice device;
        CUcontext context;
        must("cuInit", cuInit(0));
        must("cuDeviceGet", cuDeviceGet(&device, 0));
        must("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device));
        must("cuCtxSetCurrent", cuCtxSetCurrent(context));
        return device;
    }
    static CUstream make_stream() {
        CUstream stream;
        must("cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_DEFAULT));
        return stream;
    }
    static CUevent make_event() {
        CUevent event;
        must("cuEventCreate", cuEventCreate(&event, CU_EVENT_DEFAULT));
        return event;
    }

    // In this order: what is below is destroyed before what is above.
    Owned<CUdevice, cuDevicePrimaryCtxRelease> device_{open()};
    Owned<CUstream, cuStreamDestroy> stream_{make_stream()};
    Owned<CUevent, cuEventDestroy> from_{make_event()}, to_{make_event()};
};

// An array on the GPU.
template <typename T>
class Array {
public:
    // For a result. Every byte is 0xff, a NaN in each type: what a kernel leaves out agrees with nothing.
    explicit Array(std::size_t count) : count_(count), memory_(allocate(count * sizeof(T))) {
        must("cuMemsetD8", cuMemsetD8(memory_.get(), 0xff, count * sizeof(T)));
    }
    explicit Array(const std::vector<T> &from) : count_(from.size()), memory_(allocate(from.size() * sizeof(T))) {
        must("cuMemcpyHtoD", cuMemcpyHtoD(memory_.get(), from.data(), from.size() * sizeof(T)));
    }

    CUdeviceptr at(std::size_t index = 0) const { return memory_.get() + index * sizeof(T); }

    std::vector<T> download(const Gpu &gpu) const {
        std::vector<T> to(count_);
        must("cuStreamSynchronize", cuStreamSynchronize(gpu.stream()));
        must("cuMemcpyDtoH", cuMemcpyDtoH(to.data(), memory_.get(), count_ * sizeof(T)));
        return to;
    }

private:
    static CUdeviceptr allocate(std::size_t bytes) {
        CUdeviceptr memory;
        must("cuMemAlloc", cuMemAlloc(&memory, bytes));
        return memory;
    }

    std::size_t count_;
    Owned<CUdeviceptr, cuMemFree> memory_;
};

// A fixed sequence of odd numbers between -2^(bits - 1) and 2^(bits - 1): none is 0.
class Odd {
public:
    explicit Odd(std::uint32_t state) : state_(state) {}
    std::int32_t next(int bits) {
        state_ = state_ * 1664525u + 1013904223u;
        return static_cast<std::int32_t>(state_ >> (32 - bits) | 1) - (std::int32_t{1} << (bits - 1));
    }

private:
    std::uint32_t state_;
};

// The larger of two errors. A NaN is the largest there is, and stays.
inline double worse(double largest, double error) { return std::isnan(largest) || error <= largest ? largest : error; }

// Prints one line, and says how the program should end.
inline Ending report(const char *what, double largest, double tolerance, float ms) {
    const bool right = largest <= tolerance;
    std::printf("    %s: largest error %.3g, at most %.3g is right; %.4f ms a launch\n", what, largest, tolerance,
                static_cast<double>(ms));
    if (!right)
        std::printf("    The result does not agree with the plain loop%s.\n",
                    std::isnan(largest) ? ": all or part of it was never computed" : "");
    return right ? agrees : differs;
}

// Runs a sample; an error is its one sentence.
template <typename Sample>
int run_sample(Sample sample) {
    try {
        return sample();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return failed;
    }
}

#endif
