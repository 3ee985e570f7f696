"""The gradient of attention for compute capability 9.0 with a head_dim of 256, in Gluon: a warp
that copies, a warp group that computes P and dV, and one that computes dS and dK.

dK and dV of 64 keys and 256 dimensions fill half of the registers of two warp groups. So a program
owns 64 keys, one consumer has their dV and the other one their dK, and each product is computed
once. What the other one needs goes through shared memory:

    producer:
        start to copy K and V
        for each head that shares the keys, for each tile i of queries that sees any of them:
            wait until a slot is empty;  start to copy Q[i] and lse2[i] there
            wait until a slot is empty;  start to copy dO[i] and delta[i] there

    consumer 0, for each tile i:                    consumer 1, for each tile i:
        wait for Q[i];  S = K @ Q[i].T                  wait for dO[i];  dP = V @ dO[i].T
        P = exp2(S * scale_log2 - lse2[i])              wait for P
        store P, and say so                             dS = P * (dP - delta[i])
        start dV = dV + P @ dO[i]                       store dS, and say so
        wait for dS                                     start the right half of dQ = dS.T @ K
        start the left half of dQ = dS.T @ K            start dK = dK + dS @ Q[i]
        wait for dQ;  add it to the dQ in memory        wait for dQ;  add it to the dQ in memory
    store dV                                        store scale * dK

P and dS have one tile each, and no barrier says that it is empty: who stores P[i + 1] has waited
for dS[i], which was computed from P[i]; and who stores dS[i + 1] has waited for P[i + 1], which was
stored when dQ[i] had been computed. P is rounded to the dtype of the inputs there, as for dV.
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
"""Keys of a program, and queries of a tile."""
WIDTH = gl.constexpr(64)
"""Columns of dQ that are added at once."""
S_LAYOUT = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]))
"""Of S, P, dP and dS, [ROWS, ROWS], and of WIDTH columns of dQ."""
QUERIES = gl.constexpr(gl.SliceLayout(0, S_LAYOUT.value))
OPERAND = gl.constexpr(gl.DotOperandLayout(0, S_LAYOUT.value, 2))


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
    k_ring: Ring
    v_ring: Ring
    p_tile: gl.shared_memory_descriptor  # [ROWS, ROWS], transposed as S is
    d_s_tile: gl.shared_memory_descriptor
    p_full: gl.shared_memory_descriptor
    d_s_full: gl.shared_memory_descriptor
    d_q_tiles: gl.shared_memory_descriptor  # float32 [2, 1, 1, ROWS, WIDTH], one for each consumer
    keys: Keys
    scale: gl.tensor
    scale_log2: gl.tensor
    D: gl.constexpr
    ADD_D_Q: gl.constexpr


@gluon.jit
def produce(program):
    """The producer warp: start every copy, in the order in which the consumers need them."""
    keys = program.keys
    at = [keys.batch, keys.key_head, keys.first_key, 0]
    program.k_ring.copy(program.k_desc, at, 0)
    program.v_ring.copy(program.v_desc, at, 0)
    copy_rows(
        keys, program.q_rows, program.d_out_rows, program.q_desc, program.lse2_desc,
        program.d_out_desc, program.delta_desc,
    )


@gluon.jit
def start_d_q(program, column: gl.constexpr):
    """Start WIDTH columns of dQ = dS.T @ K."""
    k = program.k_ring.slots.index(0).reshape([ROWS, program.D]).slice(column, WIDTH, dim=1)
    zeros = gl.zeros([ROWS, WIDTH], gl.float32, S_LAYOUT)
    return warpgroup_mma(
        program.d_s_tile.permute((1, 0)), k, zeros, use_acc=False, is_async=True
    )


@gluon.jit
def add_d_q(program, CONSUMER: gl.constexpr, d_q, head, i, column: gl.constexpr):
    """Start to add WIDTH columns of dQ of tile i to what is in memory."""
    tile = program.d_q_tiles.index(CONSUMER)
    tma.store_wait(0)  # what the buffer held before has left it
    tile.reshape([ROWS, WIDTH]).store(d_q)
    fence_async_shared()  # TMA sees what the warps have stored
    if program.ADD_D_Q:
        at = [program.keys.batch, head, i * ROWS, column]
        tma.async_atomic_add(program.d_q_desc, at, tile)


@gluon.jit
def take_scores(program, k, head, i, n, d_v, MASKED: gl.constexpr):
    """Consumer 0, tile i of the queries of a head, the n-th of all: P, and add to dV and dQ."""
    D: gl.constexpr = program.D
    q = program.q_rows.ring.wait_full(n, [ROWS, D])
    zeros = gl.zeros([ROWS, ROWS], gl.float32, S_LAYOUT)
    S = warpgroup_mma(k, q.permute((1, 0)), zeros, use_acc=False, is_async=True)
    S = warpgroup_mma_wait(0, deps=[S])
    lse2 = program.q_rows.load_numbers(n, QUERIES)
    program.q_rows.ring.release(n)
    P = gl.exp2(S * program.scale_log2 - lse2[None, :])
    if MASKED:
        P = program.keys.hide(P, 0, i)
    P = P.to(program.p_tile.dtype)
    program.p_tile.store(P)
    mbarrier.arrive(program.p_full, count=1)
    d_out = program.d_out_rows.ring.wait_full(n, [ROWS, D])
    d_v = warpgroup_mma(gl.convert_layout(P, OPERAND), d_out, d_v, is_async=True)
    mbarrier.wait(program.d_s_full, n & 1)
    left, right = start_d_q(program, 0), start_d_q(program, WIDTH)
    d_v = warpgroup_mma_wait(2, deps=[d_v])
    program.d_out_rows.ring.release(n)
    left = warpgroup_mma_wait(1, deps=[left])
    add_d_q(program, 0, left, head, i, 0)
    right = warpgroup_mma_wait(0, deps=[right])
    add_d_q(program, 0, right, head, i, WIDTH)
    return d_v


@gluon.jit
def take_gradients(program, v, head, i, n, d_k):
    """Consumer 1, tile i of the queries of a head, the n-th of all: dS, and add to dK and dQ."""
    D: gl.constexpr = program.D
    d_out = program.d_out_rows.ring.wait_full(n, [ROWS, D])
    zeros = gl.zeros([ROWS, ROWS], gl.float32, S_LAYOUT)
    d_P = warpgroup_mma(v, d_out.permute((1, 0)), zeros, use_acc=False, is_async=True)
    d_P = warpgroup_mma_wait(0, deps=[d_P])
    delta = program.d_out_rows.load_numbers(n, QUERIES)
    program.d_out_rows.ring.release(n)
    mbarrier.wait(program.p_full, n & 1)
    P = program.p_tile.load(S_LAYOUT)
    d_S = (P.to(gl.float32) * (d_P - delta[None, :])).to(program.d_s_tile.dtype)
    program.d_s_tile.store(d_S)
    fence_async_shared()  # tensor cores see what the warps have stored
    mbarrier.arrive(program.d_s_full, count=1)
    d_q = start_d_q(program, 2 * WIDTH)
    q = program.q_rows.ring.wait_full(n, [ROWS, D])
    d_k = warpgroup_mma(gl.convert_layout(d_S, OPERAND), q, d_k, is_async=True)
    d_q = warpgroup_mma_wait(1, deps=[d_q])
    add_d_q(program, 1, d_q, head, i, 2 * WIDTH)
    d_q = start_d_q(program, 3 * WIDTH)
    d_k = warpgroup_mma_wait(1, deps=[d_k])
    program.q_rows.ring.release(n)
    d_q = warpgroup_mma_wait(0, deps=[d_q])
    add_d_q(program, 1, d_q, head, i, 3 * WIDTH)
    return d_k


@gluon.jit
def consume(program, CONSUMER: gl.constexpr):
    """A consumer, 4 warps: dV, or dK, of all tiles, and half of their dQ."""
    D: gl.constexpr = program.D
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    keys = program.keys
    begin, whole, end = keys.tiles()
    total = gl.zeros([ROWS, D], gl.float32, LAYOUT)
    k = program.k_ring.wait_full(0, [ROWS, D])
    own = k
    if CONSUMER == 1:
        own = program.v_ring.wait_full(0, [ROWS, D])
    n = 0
    for shared in range(keys.HEADS_PER_KEY_HEAD):
        head = keys.head(shared)
        if CONSUMER == 0:
            if keys.IS_CAUSAL or not keys.EVEN_N:
                for i in range(begin, whole):
                    total = take_scores(program, own, head, i, n, total, True)
                    n += 1
            for i in range(whole, end):
                total = take_scores(program, own, head, i, n, total, False)
                n += 1
        else:
            for i in range(begin, end):
                total = take_gradients(program, own, head, i, n, total)
                n += 1

    # dV leaves through the first slot of dO, which all have read, and dK through V.
    at = [keys.batch, keys.key_head, keys.first_key, 0]
    tile = program.v_ring.slots.index(0)
    if CONSUMER == 0:
        tile = program.d_out_rows.ring.slots.index(0)
        tile.reshape([ROWS, D]).store(total.to(tile.dtype))
        fence_async_shared()
        tma.async_store(program.d_v_desc, at, tile)
    else:
        tile.reshape([ROWS, D]).store((total * program.scale).to(tile.dtype))
        fence_async_shared()
        tma.async_store(program.d_k_desc, at, tile)
    tma.store_wait(0)  # shared memory is another program's once this one has ended


@gluon.jit(do_not_specialize=SIZES)
def wide_kernel(
    q_desc, k_desc, v_desc, d_out_desc, lse2_desc, delta_desc, d_q_desc, d_k_desc, d_v_desc,
    seqlen_q, seqlen_k, padded, nheads, pairs, heads_in_l2, scale, scale_log2,
    IS_CAUSAL: gl.constexpr, EVEN_N: gl.constexpr, HEADS_PER_KEY_HEAD: gl.constexpr,
    ADD_D_Q: gl.constexpr,
):
    """Program p computes dK and dV of 64 keys, and adds what they give to dQ.

    The arguments are those of gradient_kernel, with 64 for 128 keys.
    """
    D: gl.constexpr = q_desc.block_shape[3]
    schedule = Schedule(
        seqlen_k, seqlen_k, nheads // HEADS_PER_KEY_HEAD, pairs, heads_in_l2,
        ROWS, ROWS, 1, IS_CAUSAL, False,
    )
    batch, key_head, first_key = schedule.tile(gl.program_id(0))
    keys = Keys(
        batch, key_head, first_key, nheads, seqlen_q, seqlen_k, padded,
        IS_CAUSAL, EVEN_N, HEADS_PER_KEY_HEAD, ROWS, ROWS,
    )
    q_rows = make_rows(q_desc, lse2_desc, 2, 2)  # Q is released long after dO
    d_out_rows = make_rows(d_out_desc, delta_desc, 1, 2)
    k_ring = make_ring(k_desc, 1, 0)
    v_ring = make_ring(v_desc, 1, 0)
    TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, ROWS], q_desc.dtype)
    p_tile = gl.allocate_shared_memory(q_desc.dtype, [ROWS, ROWS], TILE)
    d_s_tile = gl.allocate_shared_memory(q_desc.dtype, [ROWS, ROWS], TILE)
    p_full, d_s_full = mbarrier.allocate_mbarrier(), mbarrier.allocate_mbarrier()
    mbarrier.init(p_full, count=1)
    mbarrier.init(d_s_full, count=1)
    d_q_tiles = gl.allocate_shared_memory(
        gl.float32, [2] + d_q_desc.block_shape, d_q_desc.layout
    )
    fence_async_shared()  # TMA sees the mbarriers as they were initialized
    program = Program(
        q_desc, k_desc, v_desc, d_out_desc, lse2_desc, delta_desc, d_q_desc, d_k_desc, d_v_desc,
        q_rows, d_out_rows, k_ring, v_ring, p_tile, d_s_tile, p_full, d_s_full, d_q_tiles,
        keys, scale, scale_log2, D, ADD_D_Q,
    )
    gl.warp_specialize(
        [(consume, (program, 0)), (consume, (program, 1)), (produce, (program,))], [4, 1], [240, 24]
    )
