"""What launchers ask of the GPU that a tensor is on, and exp and log as kernels compute them."""

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl

# GPUs have exp2 and log2 in hardware: exp(t) = exp2(t * LOG2E), and log(t) = log2(t) * LN2.
LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def finite(maximum):
    """What to subtract before exp2: the maximum, but 0 where all was -inf.

    -inf - -inf is NaN, and the result must be exp2(-inf).
    """
    return tl.where(maximum == -float("inf"), 0.0, maximum)


class Gpu(NamedTuple):
    """The properties of a GPU that settings depend on."""

    capability: tuple[int, int]
    """The compute capability, which only NVIDIA's GPUs have: (0, 0) for others."""
    multiprocessors: int
    shared_kib: int
    """Shared memory that one program may take, in KiB."""


CPU_MODE = Gpu((0, 0), multiprocessors=132, shared_kib=227)
"""What the interpreter stands for: no compute capability, and the sizes of an H200."""


def gpu_of(x: torch.Tensor) -> Gpu:
    """The GPU that x is on; CPU_MODE for a tensor on the CPU."""
    return _properties(x.get_device()) if x.is_cuda else CPU_MODE


@functools.cache
def _properties(index: int) -> Gpu:
    """The GPU of this index. Asked once, since the driver takes up to a millisecond to answer."""
    properties = triton.runtime.driver.active.utils.get_device_properties(index)
    return Gpu(
        (0, 0) if torch.version.hip else torch.cuda.get_device_capability(index),
        properties["multiprocessor_count"],
        properties["max_shared_mem"] // 1024,
    )


def as_stored(x: torch.Tensor) -> torch.Tensor:
    """x, copied if it has a negative bit, which is no part of the memory that a kernel reads."""
    return x.resolve_neg()
