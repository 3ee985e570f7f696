"""The gradient of attention for compute capability 9.0, in Gluon: a warp that copies, beside two
warp groups that compute.

A program owns 128 keys of a head, and goes through the queries that see them. Each of its two
consumers owns 64 of the keys: their rows of S and dS, transposed, and their dK and dV. The dQ of a
tile of queries is a sum over all 128 keys, so each consumer computes half of it, from both halves
of dS, which they hand to each other in shared memory:

    producer:
        start to copy both halves of K and V
        for each head that shares the keys, for each tile i of queries that sees any of them:
            wait until a slot is empty;  start to copy Q[i] and lse2[i] there
            wait until a slot is empty;  start to copy dO[i] and delta[i] there

    each consumer c:
        dK, dV = 0, 0
        for each head that shares the keys, for each tile i of queries that sees any of them:
            wait for Q[i];   start S = K[c] @ Q[i].T                # [64, BLOCK_M]
            wait for dO[i];  start dP = V[c] @ dO[i].T
            wait for S;      P = exp2(S * scale_log2 - lse2[i])
            wait for dP;     dS = P * (dP - delta[i])
            store dS for the other consumer, and say so
            start dV = dV + P @ dO[i]                               # [64, D]
            start dQ = part c of dS[c].T @ K[c]                     # [64, 64]
            wait for the other consumer's dS
            start dQ = dQ + part c of the other's dS.T @ its K
            start dK = dK + dS @ Q[i]                               # [64, D]
            wait for dV;     dO's slot is empty
            wait for dQ;     add it to the dQ in memory, by TMA
            wait for dK;     Q's slot is empty
        store dV and scale * dK

Part c of dQ is half of its columns where D is 128, and half of its rows where D is 64: there a tile
has 128 queries. For each 64 x 128 queries and keys and D = 128, tensor cores are busy for 2,560
cycles, exp2 takes 512, and adding dQ moves 32 KiB to the L2 cache. Half as many keys would double
what is added for each product (FlashAttention-3 has the same tiles: https://arxiv.org/abs/2407.08608,
appendix B.1).

The two tiles of dS that a consumer writes by turns need no barrier that says they are empty. Who
stores dS[i] has waited for the other's dS[i - 1], and the other one waited for its dQ[i - 2], which
read this place, before it stored that.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.language.core import _aggregate as aggregate

from kernels.attention.gluon.ring import Ring, make_ring
from kernels.attention.gluon.schedule import Schedule
from kernels.attention.gradient.gluon.rows import SIZES, Keys, Rows, copy_rows, make_rows

ROWS = gl.constexpr(64)
"""Keys of a consumer: the rows of a warp group's products."""
CONSUMERS = gl.constexpr(2)
SLOTS = gl.constexpr(2)
"""Tiles of Q, and of dO, in shared memory."""


@aggregate
class Program:
    """What the producer and the consumers of a program share."""

    q_desc: tma.tensor_descriptor
    k_desc: tma.tensor_descriptor
    v_desc: tma.tensor_descriptor
    d_out_desc: tma.tensor_descriptor
    lse2_desc: tma.tensor_descriptor
    delta_desc: tma.tensor_descriptor
    d_q_desc: tma.tensor_descriptor
    d_k_desc: tma.tensor_descriptor
    d_v_desc: tma.tensor_descriptor
    q_rows: Rows
    d_out_rows: Rows
    k_ring: Ring  # a slot for each consumer, and so v_ring
    v_ring: Ring
    d_s_tiles: gl.shared_memory_descriptor  # [2 * CONSUMERS, ROWS, BLOCK_M]
    d_s_full: gl.shared_memory_descriptor  # a mbarrier for each of the two pairs
    d_q_tiles: gl.shared_memory_descriptor  # float32 [CONSUMERS, 1, 1, ROWS, 64]
    keys: Keys
    scale: gl.tensor
    scale_log2: gl.tensor
    D: gl.constexpr
    ADD_D_Q: gl.constexpr


@gluon.jit
def produce(program):
    """The producer warp: start every copy, in the order in which the consumers need them."""
    keys = program.keys
    for consumer in gl.static_range(CONSUMERS):
        at = [keys.batch, keys.key_head, keys.first_key + consumer * ROWS, 0]
        program.k_ring.copy(program.k_desc, at, consumer)
        program.v_ring.copy(program.v_desc, at, consumer)
    copy_rows(
        keys, program.q_rows, program.d_out_rows, program.q_desc, program.lse2_desc,
        program.d_out_desc, program.delta_desc,
    )


@gluon.jit
def part_of_d_q(program, CONSUMER: gl.constexpr, of: gl.constexpr, n, d_q, FIRST: gl.constexpr):
    """Start d_q + this consumer's part of dS.T @ K over the keys of consumer `of`."""
    d_s = program.d_s_tiles.index(n % 2 * CONSUMERS + of).permute((1, 0))  # [BLOCK_M, ROWS]
    k = program.k_ring.slots.index(of).reshape([ROWS, program.D])
    if program.D > 64:
        k = k.slice(CONSUMER * 64, 64, dim=1)
    else:
        d_s = d_s.slice(CONSUMER * ROWS, ROWS, dim=0)
    return warpgroup_mma(d_s, k, d_q, use_acc=not FIRST, is_async=True)


@gluon.jit
def take(
    program, CONSUMER: gl.constexpr, k, v, head, i, n, d_k, d_v, MASKED: gl.constexpr
):
    """Tile i of the queries of a head, the n-th of all: add to dK, dV and dQ."""
    keys = program.keys
    BLOCK_M: gl.constexpr = keys.BLOCK_M
    D: gl.constexpr = program.D
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    D_Q_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    NUMBERS: gl.constexpr = gl.SliceLayout(0, S_LAYOUT)
    OPERAND: gl.constexpr = gl.DotOperandLayout(0, S_LAYOUT, 2)
    dtype: gl.constexpr = program.q_desc.dtype
    zeros = gl.zeros([ROWS, BLOCK_M], gl.float32, S_LAYOUT)
    q = program.q_rows.ring.wait_full(n, [BLOCK_M, D])
    S = warpgroup_mma(k, q.permute((1, 0)), zeros, use_acc=False, is_async=True)
    d_out = program.d_out_rows.ring.wait_full(n, [BLOCK_M, D])
    d_P = warpgroup_mma(v, d_out.permute((1, 0)), zeros, use_acc=False, is_async=True)
    S = warpgroup_mma_wait(1, deps=[S])
    lse2 = program.q_rows.load_numbers(n, NUMBERS)
    P = gl.exp2(S * program.scale_log2 - lse2[None, :])
    if MASKED:
        P = keys.hide(P, CONSUMER * ROWS, i)
    P_operand = gl.convert_layout(P.to(dtype), OPERAND)
    d_P = warpgroup_mma_wait(0, deps=[d_P])
    delta = program.d_out_rows.load_numbers(n, NUMBERS)
    d_S = (P * (d_P - delta[None, :])).to(dtype)
    program.d_s_tiles.index(n % 2 * CONSUMERS + CONSUMER).store(d_S)
    fence_async_shared()  # tensor cores see what the warps have stored
    d_s_full = program.d_s_full.index(n % 2)
    mbarrier.arrive(d_s_full, count=1)
    d_v = warpgroup_mma(P_operand, d_out, d_v, is_async=True)
    d_q = gl.zeros([ROWS, 64], gl.float32, D_Q_LAYOUT)
    d_q = part_of_d_q(program, CONSUMER, CONSUMER, n, d_q, True)
    mbarrier.wait(d_s_full, n // 2 & 1)
    d_q = part_of_d_q(program, CONSUMER, 1 - CONSUMER, n, d_q, False)
    d_k = warpgroup_mma(gl.convert_layout(d_S, OPERAND), q, d_k, is_async=True)
    d_v = warpgroup_mma_wait(3, deps=[d_v])
    program.d_out_rows.ring.release(n)
    d_q = warpgroup_mma_wait(1, deps=[d_q])
    tma.store_wait(0)  # what the buffer held before has left it
    d_q_tile = program.d_q_tiles.index(CONSUMER)
    d_q_tile.reshape([ROWS, 64]).store(d_q)
    fence_async_shared()  # TMA sees what the warps have stored
    row, column = i * BLOCK_M, 0
    if D > 64:
        column = CONSUMER * 64
    else:
        row = row + CONSUMER * ROWS
    if program.ADD_D_Q:
        tma.async_atomic_add(program.d_q_desc, [keys.batch, head, row, column], d_q_tile)
    d_k = warpgroup_mma_wait(0, deps=[d_k])
    program.q_rows.ring.release(n)
    return d_k, d_v


@gluon.jit
def consume(program, CONSUMER: gl.constexpr):
    """A consumer, 4 warps: dK and dV of its keys, and its part of dQ."""
    D: gl.constexpr = program.D
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    keys = program.keys
    begin, whole, end = keys.tiles()
    d_k = gl.zeros([ROWS, D], gl.float32, LAYOUT)
    d_v = gl.zeros([ROWS, D], gl.float32, LAYOUT)
    program.k_ring.wait_full(1 - CONSUMER, [ROWS, D])
    k = program.k_ring.wait_full(CONSUMER, [ROWS, D])
    v = program.v_ring.wait_full(CONSUMER, [ROWS, D])
    n = 0
    for shared in range(keys.HEADS_PER_KEY_HEAD):
        head = keys.head(shared)
        if keys.IS_CAUSAL or not keys.EVEN_N:
            for i in range(begin, whole):
                d_k, d_v = take(program, CONSUMER, k, v, head, i, n, d_k, d_v, True)
                n += 1
        for i in range(whole, end):
            d_k, d_v = take(program, CONSUMER, k, v, head, i, n, d_k, d_v, False)
            n += 1

    # Both leave through V's own tile, which nobody reads any more.
    at = [keys.batch, keys.key_head, keys.first_key + CONSUMER * ROWS, 0]
    out_tile = program.v_ring.slots.index(CONSUMER)
    v.store(d_v.to(v.dtype))
    fence_async_shared()
    tma.async_store(program.d_v_desc, at, out_tile)
    tma.store_wait(0)
    v.store((d_k * program.scale).to(v.dtype))
    fence_async_shared()
    tma.async_store(program.d_k_desc, at, out_tile)
    tma.store_wait(0)  # shared memory is another program's once this one has ended


@gluon.jit(do_not_specialize=SIZES)
def gradient_kernel(
    q_desc, k_desc, v_desc, d_out_desc, lse2_desc, delta_desc, d_q_desc, d_k_desc, d_v_desc,
    seqlen_q, seqlen_k, padded, nheads, pairs, heads_in_l2, scale, scale_log2,
    IS_CAUSAL: gl.constexpr, EVEN_N: gl.constexpr, HEADS_PER_KEY_HEAD: gl.constexpr,
    ADD_D_Q: gl.constexpr,
):
    """Program p computes dK and dV of 128 keys, and adds what they give to dQ.

    q_desc, d_out_desc: tensor descriptors of [batch, nheads, seqlen_q, D] in blocks of
        [1, 1, BLOCK_M, D]: 64 queries where D is 128, and 128 where it is 64.
    k_desc, v_desc, d_k_desc, d_v_desc: of [batch, key heads, seqlen_k, D], in blocks of 64 keys.
    lse2_desc, delta_desc: of float32 [batch * nheads * padded], in blocks of BLOCK_M.
    d_q_desc: of float32 [batch, nheads, seqlen_q, D] in blocks of [1, 1, 64, 64]. dQ / scale is
        added to it.
    pairs: key heads of all batches. heads_in_l2: so many of them come side by side.
    EVEN_N: whether 128 divides seqlen_k.
    ADD_D_Q: whether to add dQ to memory. It is computed in any case: so the additions can be timed.
    """
    BLOCK_M: gl.constexpr = q_desc.block_shape[2]
    D: gl.constexpr = q_desc.block_shape[3]
    # Tiles of keys come as tiles of queries do. The first ones are seen by most queries.
    schedule = Schedule(
        seqlen_k, seqlen_k, nheads // HEADS_PER_KEY_HEAD, pairs, heads_in_l2,
        ROWS * CONSUMERS, BLOCK_M, 1, IS_CAUSAL, False,
    )
    batch, key_head, first_key = schedule.tile(gl.program_id(0))
    keys = Keys(
        batch, key_head, first_key, nheads, seqlen_q, seqlen_k, padded,
        IS_CAUSAL, EVEN_N, HEADS_PER_KEY_HEAD, BLOCK_M, ROWS * CONSUMERS,
    )
    q_rows = make_rows(q_desc, lse2_desc, SLOTS, CONSUMERS)
    d_out_rows = make_rows(d_out_desc, delta_desc, SLOTS, CONSUMERS)
    k_ring = make_ring(k_desc, CONSUMERS, 0)
    v_ring = make_ring(v_desc, CONSUMERS, 0)
    D_S_LAYOUT: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, BLOCK_M], q_desc.dtype)
    d_s_tiles = gl.allocate_shared_memory(q_desc.dtype, [2 * CONSUMERS, ROWS, BLOCK_M], D_S_LAYOUT)
    d_s_full = mbarrier.allocate_mbarrier(batch=2)
    for slot in gl.static_range(2):
        mbarrier.init(d_s_full.index(slot), count=CONSUMERS)
    d_q_tiles = gl.allocate_shared_memory(
        gl.float32, [CONSUMERS] + d_q_desc.block_shape, d_q_desc.layout
    )
    fence_async_shared()  # TMA sees the mbarriers as they were initialized
    program = Program(
        q_desc, k_desc, v_desc, d_out_desc, lse2_desc, delta_desc, d_q_desc, d_k_desc, d_v_desc,
        q_rows, d_out_rows, k_ring, v_ring, d_s_tiles, d_s_full, d_q_tiles,
        keys, scale, scale_log2, D, ADD_D_Q,
    )
    gl.warp_specialize(
        [(consume, (program, 0)), (consume, (program, 1)), (produce, (program,))], [4, 1], [240, 24]
    )
