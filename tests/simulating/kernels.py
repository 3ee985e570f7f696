"""Kernels in Gluon, right ones and ones with a planted fault, which a GPU can run as they are."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

ROWS, COLS = 16, 64


@gluon.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    i = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout)
    x = gl.load(x_ptr + i, mask=i < n)
    y = gl.load(y_ptr + i, mask=i < n)
    gl.store(out_ptr + i, x + y, mask=i < n)


@gluon.jit
def _fetch(x_desc, buffers, full, empty, tiles, SLOTS: gl.constexpr, FAULT: gl.constexpr):
    """The producer: a ring of buffers is filled, each once it is empty."""
    for i in range(tiles):
        slot = i % SLOTS
        phase = (i // SLOTS) & 1
        if FAULT == "wrong phase of empty":
            mbarrier.wait(empty.index(slot), phase)
        elif FAULT != "no wait for empty":
            mbarrier.wait(empty.index(slot), phase ^ 1)
        if FAULT == "too many bytes expected":
            mbarrier.expect(full.index(slot), 2 * x_desc.nbytes_per_cta)
        elif FAULT != "nothing expected":
            mbarrier.expect(full.index(slot), x_desc.nbytes_per_cta)
        tma.async_load(x_desc, [i * 16, 0], full.index(slot), buffers.index(slot))


@gluon.jit
def _double(out_desc, buffers, out, full, empty, tiles, SLOTS: gl.constexpr, FAULT: gl.constexpr):
    """The consumer: each tile is doubled and copied to the output."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    for i in range(tiles):
        slot = i % SLOTS
        phase = (i // SLOTS) & 1
        if FAULT == "wrong phase of full":
            mbarrier.wait(full.index(slot), phase ^ 1)
        elif FAULT != "no wait for full":
            mbarrier.wait(full.index(slot), phase)
        x = buffers.index(slot).load(layout)
        if FAULT != "no fence before the next copy":
            fence_async_shared()
        if FAULT == "arrives too early":
            mbarrier.arrive(empty.index(slot), count=1)
            x = buffers.index(slot).load(layout)
        elif FAULT == "arrives at the wrong slot":
            mbarrier.arrive(empty.index(0), count=1)
        elif FAULT == "arrives twice":
            mbarrier.arrive(empty.index(slot), count=1)
            mbarrier.arrive(empty.index(slot), count=1)
        elif FAULT != "never arrives":
            mbarrier.arrive(empty.index(slot), count=1)
        if FAULT != "no store_wait":
            tma.store_wait(0)
        out.store(x + x)
        if FAULT != "no fence":
            fence_async_shared()
        tma.async_store(out_desc, [i * 16, 0], out)
    tma.store_wait(0)


@gluon.jit
def ring_kernel(x_desc, out_desc, tiles, SLOTS: gl.constexpr, FAULT: gl.constexpr):
    buffers = gl.allocate_shared_memory(x_desc.dtype, [SLOTS, 16, 64], x_desc.layout)
    out = gl.allocate_shared_memory(x_desc.dtype, [16, 64], x_desc.layout)
    full = mbarrier.allocate_mbarrier(batch=SLOTS)
    empty = mbarrier.allocate_mbarrier(batch=SLOTS)
    for i in gl.static_range(SLOTS):
        mbarrier.init(full.index(i), count=1)
        if FAULT == "one arrival too many asked":
            mbarrier.init(empty.index(i), count=2)
        elif FAULT != "empty not initialized":
            mbarrier.init(empty.index(i), count=1)
    fence_async_shared()
    gl.warp_specialize(
        [
            (_double, (out_desc, buffers, out, full, empty, tiles, SLOTS, FAULT)),
            (_fetch, (x_desc, buffers, full, empty, tiles, SLOTS, FAULT)),
        ],
        [1],
        [24],
    )


@gluon.jit
def product_kernel(a_desc, b_desc, out_ptr, FAULT: gl.constexpr):
    """The product of two 64 x 64 matrices of float16."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    a = gl.allocate_shared_memory(a_desc.dtype, [64, 64], a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, [64, 64], b_desc.layout)
    arrived = mbarrier.allocate_mbarrier()
    mbarrier.init(arrived, count=1)
    fence_async_shared()
    mbarrier.expect(arrived, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
    tma.async_load(a_desc, [0, 0], arrived, a)
    tma.async_load(b_desc, [0, 0], arrived, b)
    if FAULT != "operands not waited for":
        mbarrier.wait(arrived, 0)
    zeros = gl.zeros([64, 64], gl.float32, layout)
    out = warpgroup_mma(a, b, zeros, is_async=True)
    if FAULT == "operand overwritten":
        mbarrier.expect(arrived, b_desc.nbytes_per_cta)
        tma.async_load(b_desc, [0, 0], arrived, b)
    if FAULT != "product not waited for":
        out = warpgroup_mma_wait(0, deps=[out])
    rows = gl.arange(0, 64, gl.SliceLayout(1, layout))
    cols = gl.arange(0, 64, gl.SliceLayout(0, layout))
    gl.store(out_ptr + rows[:, None] * 64 + cols[None, :], out * 1.0)
    mbarrier.invalidate(arrived)


@gluon.jit
def short_kernel(a_desc, b_desc, out_ptr, WANTED: gl.constexpr, PHASE: gl.constexpr):
    """The sum of a product whose copies are announced as WANTED bytes and waited for at PHASE."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    a = gl.allocate_shared_memory(a_desc.dtype, [64, 64], a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, [64, 64], b_desc.layout)
    arrived = mbarrier.allocate_mbarrier()
    mbarrier.init(arrived, count=1)
    mbarrier.expect(arrived, WANTED)
    tma.async_load(a_desc, [0, 0], arrived, a)
    tma.async_load(b_desc, [0, 0], arrived, b)
    mbarrier.wait(arrived, PHASE)
    out = warpgroup_mma(a, b, gl.zeros([64, 64], gl.float32, layout))
    gl.store(out_ptr, gl.sum(gl.sum(out, 1), 0))


def descriptor(tensor, block):
    layout = gl.NVMMASharedLayout.get_default_for(block, gl.float16)
    return TensorDescriptor(tensor, [*tensor.shape], [*tensor.stride()], block, layout)


def ring_arguments(tiles, slots, fault, device="cpu"):
    """The ring kernel's arguments for random numbers, and the output that is right."""
    x = torch.randn(tiles * ROWS, COLS, generator=torch.Generator().manual_seed(0))
    x = x.to(device, torch.float16)
    out = torch.full_like(x, float("nan"))
    args = (descriptor(x, [ROWS, COLS]), descriptor(out, [ROWS, COLS]), tiles, slots, fault)
    return args, out, x + x


def product_arguments(fault, device="cpu"):
    """The product kernel's arguments for random numbers, and the output that is right."""
    a, b = torch.randn(2, 64, 64, generator=torch.Generator().manual_seed(0)).to(
        device, torch.float16
    )
    out = torch.full((64, 64), float("nan"), device=device)
    args = (descriptor(a, [64, 64]), descriptor(b, [64, 64]), out, fault)
    return args, out, (a.double() @ b.double()).float()
