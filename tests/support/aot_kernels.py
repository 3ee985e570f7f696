"""Kernels for the tests of aot."""

import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(
        out_ptr + offsets,
        tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask),
        mask=mask,
    )


@triton.jit
def subtract_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + offsets, mask=offsets < n), tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x - y, mask=offsets < n)


@triton.jit
def types_kernel(out_ptr, b, i8, i16, i32, i64, u8, u16, u32, u64, half, brain, single, double):
    total = i8.to(tl.float64) + i16 + i32 + i64 + u8 + u16 + u32 + u64
    total += half.to(tl.float64) + brain.to(tl.float64) + single + double
    if b:
        total += 1
    tl.store(out_ptr, total)


@triton.jit
def many_kernel(p0, a1, a2, a3, a4, a5, a6, a7, a8, a9, n10, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(
        p0 + offsets,
        (a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9).to(tl.float32),
        mask=offsets < n10,
    )


@triton.jit
def scale_kernel(x_ptr, scale, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * scale)
    else:
        tl.store(
            x_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) * scale, mask=offsets < n
        )


@triton.jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    scale,
    seqlen,
    BLOCK: tl.constexpr,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    head = tl.program_id(axis=1) * seqlen * D
    dims = tl.arange(0, D)
    q = tl.load(
        q_ptr + head + rows[:, None] * D + dims[None, :], mask=rows[:, None] < seqlen, other=0.0
    )
    most = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, D), tl.float32)
    for start in range(0, seqlen, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        k = tl.load(
            k_ptr + head + cols[:, None] * D + dims[None, :], mask=cols[:, None] < seqlen, other=0.0
        )
        v = tl.load(
            v_ptr + head + cols[:, None] * D + dims[None, :], mask=cols[:, None] < seqlen, other=0.0
        )
        scores = tl.dot(q, tl.trans(k)) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= cols[None, :], scores, -float("inf"))
        scores = tl.where(cols[None, :] < seqlen, scores, -float("inf"))
        new = tl.maximum(most, tl.max(scores, axis=1))
        power = tl.exp(scores - new[:, None])
        shrink = tl.exp(most - new)
        total = total * shrink + tl.sum(power, axis=1)
        acc = acc * shrink[:, None] + tl.dot(power.to(v.dtype), v)
        most = new
    out = (acc / total[:, None]).to(q.dtype)
    tl.store(out_ptr + head + rows[:, None] * D + dims[None, :], out, mask=rows[:, None] < seqlen)


@triton.jit
def large_kernel(a_ptr, b_ptr, out_ptr, k, BLOCK: tl.constexpr):
    """Needs more than 48 KB of shared memory, in a loop with stages."""
    rows = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, 64):
        inner = start + tl.arange(0, 64)
        acc += tl.dot(
            tl.load(a_ptr + rows[:, None] * k + inner[None, :]),
            tl.load(b_ptr + inner[:, None] * BLOCK + rows[None, :]),
        )
    tl.store(out_ptr + rows[:, None] * BLOCK + rows[None, :], acc)


@triton.jit
def descriptor_kernel(x_ptr, n, BLOCK: tl.constexpr):
    """Makes a descriptor on the GPU, for which it needs scratch memory."""
    descriptor = tl.make_tensor_descriptor(x_ptr, [n, n], [n, 1], [BLOCK, BLOCK])
    descriptor.store([0, 0], descriptor.load([0, 0]) * 2)


@triton.jit
def odd_instruction_kernel(x_ptr):
    """The assembler does not know its instruction."""
    x = tl.load(x_ptr + tl.arange(0, 128))
    y = tl.inline_asm_elementwise("odd.u32 $0, $1;", "=r,r", [x], tl.int32, is_pure=True, pack=1)
    tl.store(x_ptr + tl.arange(0, 128), y)


@triton.jit
def awkward_kernel(
    int, stream, NULL, bits_x, cu_seqlens, größe, _x, INT32_MAX, size_t, BLOCK: tl.constexpr
):
    """Its arguments' names mean something in C, or to the C that is written."""
    tl.store(
        stream + tl.arange(0, BLOCK),
        int + NULL + bits_x + cu_seqlens + größe + _x + INT32_MAX + size_t,
    )


@triton.jit
def wrong_kernel(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), undefined_name)  # noqa: F821
