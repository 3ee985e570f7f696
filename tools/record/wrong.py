"""Kernels that read outside, fail an assertion, race or never end, as a notebook shows them.

    python tools/record/wrong.py NAME

runs one of these programs on a GPU:

outside    one program too many, without a mask
illegal    an address that belongs to nobody, and what works afterwards
asserted   an assertion on the device that does not hold
printed    a print on the device
raced      a read of shared memory that does not wait for the copy (waited: one that does)
hung       a kernel that never ends
healthy    a kernel with nothing wrong, to see whether the GPU still works

What is recorded of them names lines of this file, so that the kernels stay on their lines.
"""

import sys
from collections.abc import Callable

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

BLOCK = 128


def outcome(attempt: Callable[[], object]) -> str:
    """The first line of the error that an attempt raises, or that it raises none."""
    try:
        attempt()
        return "no error"
    except RuntimeError as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


@triton.jit
def no_mask_kernel(x_ptr, out_ptr, BLOCK_SIZE: tl.constexpr):
    """out = 2 x, without a mask."""
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, 2 * x)


@triton.jit
def far_kernel(x_ptr, out_ptr, stride, BLOCK_SIZE: tl.constexpr):
    """Reads stride elements apart, however long x is."""
    offsets = tl.arange(0, BLOCK_SIZE).to(tl.int64)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets * stride))


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, n_rows, BLOCK_SIZE: tl.constexpr):
    """out[i] = x[index[i]], and says so if an index is outside x."""
    offsets = tl.arange(0, BLOCK_SIZE)
    index = tl.load(index_ptr + offsets)
    tl.device_assert((index >= 0) & (index < n_rows), "an index is outside x")
    tl.store(out_ptr + offsets, tl.load(x_ptr + index))


@triton.jit
def print_kernel(x_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    """Prints what a masked load gives."""
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    x = tl.load(x_ptr + offsets, mask=offsets < n_elements, other=-1.0)
    tl.device_print("x", x)


@triton.jit
def wait_kernel(flag_ptr):
    """Waits for a flag that nobody sets."""
    while tl.atomic_add(flag_ptr, 0) == 0:
        pass


@gluon.jit
def race_kernel(x_ptr, out_ptr, BLOCK_SIZE: gl.constexpr, WAIT: gl.constexpr):
    """out = x by way of shared memory, where a thread reads what others have copied."""
    there: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    offsets = gl.arange(0, BLOCK_SIZE, layout=there)
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    block = gl.allocate_shared_memory(gl.float32, [BLOCK_SIZE], shared)
    async_copy.async_load(block, x_ptr + offsets)
    async_copy.commit_group()
    if WAIT:
        async_copy.wait_group(0)
    back: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    x = block.load(back)
    gl.store(out_ptr + gl.arange(0, BLOCK_SIZE, layout=back), x)


def outside() -> None:
    x, out = torch.ones(1000, device="cuda"), torch.ones(1000, device="cuda")
    no_mask_kernel[(triton.cdiv(1000, BLOCK),)](x, out, BLOCK_SIZE=BLOCK)
    print("no error; out has", int((out == 2).sum()), "right elements of 1000")


def illegal() -> None:
    x, out = torch.ones(2, BLOCK, device="cuda")
    far_kernel[(1,)](x, out, 2**36, BLOCK_SIZE=BLOCK)
    print("torch.cuda.synchronize():", outcome(torch.cuda.synchronize))
    print("torch.zeros(1, device='cuda'):", outcome(lambda: torch.zeros(1, device="cuda")))
    print("x.cpu():", outcome(x.cpu))
    print("on the CPU:", torch.ones(3).sum().item())


def asserted() -> None:
    x, out = torch.ones(2, BLOCK, device="cuda")
    index = torch.arange(BLOCK, device="cuda")
    index[5] = 1_000_000
    gather_kernel[(1,)](x, index, out, len(x), BLOCK_SIZE=BLOCK)
    print(outcome(torch.cuda.synchronize))


def printed() -> None:
    print_kernel[(2,)](torch.arange(6.0, device="cuda"), 6, BLOCK_SIZE=4, num_warps=1)
    torch.cuda.synchronize()


def raced(wait: bool = False) -> None:
    x, out = torch.arange(128.0, device="cuda"), torch.zeros(128, device="cuda")
    race_kernel[(1,)](x, out, BLOCK_SIZE=128, WAIT=wait, num_warps=4)
    print("right elements:", int((out == x).sum()), "of 128")


def waited() -> None:
    raced(wait=True)


def hung() -> None:
    wait_kernel[(1,)](torch.zeros(1, dtype=torch.int32, device="cuda"))
    print("launched", flush=True)
    torch.cuda.synchronize()
    print("this line is never reached")


def healthy() -> None:
    x = torch.ones(1024, device="cuda")
    out = torch.empty_like(x)
    no_mask_kernel[(8,)](x, out, BLOCK_SIZE=BLOCK)
    print("right elements:", int((out == 2).sum()), "of 1024")


PROGRAMS = {
    program.__name__: program
    for program in (outside, illegal, asserted, printed, raced, waited, hung, healthy)
}


if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
