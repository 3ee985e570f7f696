"""Functions as a notebook or script would define them, for the tests of what goes along into
another process."""

import math

import torch
import triton
import triton.language as tl

SCALE = 3.0
TENSOR = torch.zeros(2)


@triton.jit
def times_kernel(x, factor: tl.constexpr):
    return x * factor


@triton.jit
def scale_kernel(x_ptr, factor: tl.constexpr):
    offsets = tl.arange(0, 4)
    tl.store(x_ptr + offsets, times_kernel(tl.load(x_ptr + offsets), factor))


def helper(x, root=math.sqrt):
    return root(x) if x > 1 else helper(4.0)  # recursion must not hang the collector


def uses_everything():
    x = torch.ones(4)
    scale_kernel[(1,)](x, SCALE)
    print(x.tolist(), helper(0.0))


def uses_a_tensor():
    return TENSOR + 1


def local_name_like_a_global():
    TENSOR = 5
    print(TENSOR)


def enclosing():
    secret = 1

    def inner():
        return secret

    return inner
