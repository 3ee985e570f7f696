"""Kernels with a fault each that one of Triton's sanitizers finds, and one to be compared.

    TRITON_INSTRUMENTATION_MODE=consan python tools/record/sanitized.py early
    python -m triton.tools.gsan tools/record/sanitized.py shared

early      a read of shared memory that does not wait for the copy (consan)
shared     two programs that store to one place (gsan)
turned     a descriptor whose rows begin at no multiple of 16 bytes (iisan)
added      one sum by blocks of two sizes (fpsan), and the bits of both

What is recorded of them names lines of this file.
"""

import sys

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy


@gluon.jit
def early_kernel(x_ptr, out_ptr, BLOCK_SIZE: gl.constexpr):
    """out = x by way of shared memory, which is read before the copy has come."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    offsets = gl.arange(0, BLOCK_SIZE, layout=layout)
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    block = gl.allocate_shared_memory(gl.float32, [BLOCK_SIZE], shared)
    async_copy.async_load(block, x_ptr + offsets)
    async_copy.commit_group()
    gl.store(out_ptr + offsets, block.load(layout))


@triton.jit
def shared_kernel(out_ptr):
    """Each program stores its number to the same place."""
    tl.store(out_ptr, tl.program_id(axis=0))


@triton.jit
def move_kernel(x_ptr, out_ptr, n, stride):
    """Moves a tile by descriptors made here."""
    x_desc = tl.make_tensor_descriptor(x_ptr, [n, n], [stride, 1], [16, 16])
    out_desc = tl.make_tensor_descriptor(out_ptr, [n, n], [stride, 1], [16, 16])
    out_desc.store([0, 0], x_desc.load([0, 16]))


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    """The sum of a vector, block by block."""
    total = tl.zeros([BLOCK_SIZE], tl.float32)
    for start in range(0, n, BLOCK_SIZE):
        total += tl.load(x_ptr + start + tl.arange(0, BLOCK_SIZE))
    tl.store(out_ptr, tl.sum(total, axis=0))


def early() -> None:
    x, out = torch.arange(512.0, device="cuda"), torch.zeros(512, device="cuda")
    early_kernel[(1,)](x, out, BLOCK_SIZE=512)
    torch.cuda.synchronize()
    print("right elements:", int((out == x).sum()), "of 512")


def shared() -> None:
    shared_kernel[(64,)](torch.zeros(1, dtype=torch.int32, device="cuda"))
    torch.cuda.synchronize()
    print("no error")


def turned() -> None:
    def allocate(size: int, alignment: int, stream: int | None) -> torch.Tensor:
        return torch.empty(size, dtype=torch.int8, device="cuda")

    triton.set_allocator(allocate)
    x = torch.ones(99 * 99, device="cuda")
    move_kernel[(1,)](x, torch.zeros_like(x), 99, 99)
    torch.cuda.synchronize()
    print("no error")


def added() -> None:
    x = torch.randn(2**20, device="cuda", generator=torch.Generator("cuda").manual_seed(0))
    out = torch.empty(2, device="cuda")
    for place, size in enumerate((128, 1024)):
        sum_kernel[(1,)](x, out[place:], len(x), BLOCK_SIZE=size)
    print("the same bits:", torch.equal(out[0], out[1]))


PROGRAMS = {program.__name__: program for program in (early, shared, turned, added)}


if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
