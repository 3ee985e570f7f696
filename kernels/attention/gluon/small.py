"""Attention for compute capability 9.0 in Gluon, in programs so small that several share a
multiprocessor: while one multiplies, another computes exp2, and a third waits for its keys.

A program is one warp group, which owns ROWS queries and starts its own copies:

    copy Q, the first KEY_SLOTS tiles of K and the first SLOTS of V
    S = Q @ K[0].T;  P, m, l, alpha = softmax step of S
    for each further tile j of keys:
        start S = Q @ K[j].T
        start O = O + P @ V[j - 1]
        wait for S;  copy K[j + KEY_SLOTS] over K[j]
        P', m, l, alpha = softmax step of S
        wait for O;  copy V[j - 1 + SLOTS] over V[j - 1]
        O, P = O * alpha, P'
    O = O + P @ V[last];  out, lse = O / l, m + log(l)

Tiles of 64 queries compute less of what a causal mask hides than tiles of 128 or 192, and many
short programs fill a GPU more evenly than few long ones. So short sequences gain by it, and causal
ones with a head_dim of 64, where exp2 takes as long as the products. Nobody waits for a slot to be
empty: who has read a tile is who copies the next one there.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    tma,
    warpgroup_mma_wait,
)

from kernels.attention.gluon.consumer import Consumer, lane_sums, row_sums
from kernels.attention.gluon.ring import make_ring
from kernels.attention.gluon.schedule import SIZES, Schedule
from kernels.device import LN2


@gluon.jit
def copy_keys(ring, desc, batch, key_head, i, n, BLOCK_N: gl.constexpr):
    """Start to copy tile i of n, counted from the last keys on, if there is such a tile."""
    ring.copy(desc, [batch, key_head, (n - 1 - i) * BLOCK_N, 0], i, pred=i < n)


@gluon.jit
def take_and_copy(
    own, k_desc, v_desc, batch, key_head, i, n, P, O, m, l, MASKED: gl.constexpr
):
    """The scores of tile i and the output of tile i - 1, whose slots are filled anew."""
    BLOCK_N: gl.constexpr = own.schedule.BLOCK_N
    S = own.scores(i)
    O = own.output(i - 1, P, O)
    S = warpgroup_mma_wait(1, deps=[S])  # all but the last product have ended
    copy_keys(own.k_ring, k_desc, batch, key_head, i + own.k_ring.SLOTS, n, BLOCK_N)
    P, m, l, alpha, _ = own.softmax(S, m, l, (n - 1 - i) * BLOCK_N, MASKED)  # while O is computed
    O = warpgroup_mma_wait(0, deps=[O])
    copy_keys(own.v_ring, v_desc, batch, key_head, i - 1 + own.v_ring.SLOTS, n, BLOCK_N)
    return own.operand(P), own.rescale(O, alpha), m, l


@gluon.jit(do_not_specialize=SIZES)
def small_kernel(
    q_desc, k_desc, v_desc, out_desc, lse_ptr,
    seqlen_q, seqlen_k, nheads, pairs, heads_in_l2, scale_log2,
    IS_CAUSAL: gl.constexpr, EVEN_N: gl.constexpr, HEADS_PER_KEY_HEAD: gl.constexpr,
    SLOTS: gl.constexpr, KEY_SLOTS: gl.constexpr, LONGEST_FIRST: gl.constexpr,
):
    """Program p takes tile p of the schedule. The arguments are those of attention_kernel, and

    KEY_SLOTS: tiles of K in shared memory, at most SLOTS, those of V. One will do: K[j] has been
        read long before K[j + 1] is needed, while V[j] is needed as soon as V[j - 1] has been read.
    """
    HEADS_PER_TILE: gl.constexpr = q_desc.block_shape[1]
    QUERIES: gl.constexpr = q_desc.block_shape[2]
    ROWS: gl.constexpr = HEADS_PER_TILE * QUERIES
    D: gl.constexpr = q_desc.block_shape[3]
    BLOCK_N: gl.constexpr = k_desc.block_shape[2]
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    ROW_LAYOUT: gl.constexpr = gl.SliceLayout(1, S_LAYOUT)
    MASKED: gl.constexpr = IS_CAUSAL or not EVEN_N
    schedule = Schedule(
        seqlen_q, seqlen_k, nheads, pairs, heads_in_l2,
        QUERIES, BLOCK_N, HEADS_PER_TILE, IS_CAUSAL, LONGEST_FIRST,
    )
    q_ring = make_ring(q_desc, 1, 0)
    k_ring = make_ring(k_desc, KEY_SLOTS, 0)
    v_ring = make_ring(v_desc, SLOTS, 0)
    fence_async_shared()  # TMA sees the mbarriers as they were initialized

    batch, head, first_query = schedule.tile(gl.program_id(0))
    n, masked = schedule.keys(first_query)
    key_head = head // HEADS_PER_KEY_HEAD
    q_ring.copy(q_desc, [batch, head, first_query, 0], 0)
    for slot in gl.static_range(SLOTS):
        if slot < KEY_SLOTS:
            copy_keys(k_ring, k_desc, batch, key_head, slot, n, BLOCK_N)
        copy_keys(v_ring, v_desc, batch, key_head, slot, n, BLOCK_N)

    m = gl.full([ROWS], -float("inf"), gl.float32, ROW_LAYOUT)
    l = lane_sums(gl.zeros([ROWS, BLOCK_N], gl.float32, S_LAYOUT))
    O = gl.zeros([ROWS, D], gl.float32, O_LAYOUT)
    q = q_ring.wait_full(0, [ROWS, D])
    own = Consumer(q, k_ring, v_ring, schedule, first_query, scale_log2, ROWS, D, False)
    if n > 0:
        S = warpgroup_mma_wait(0, deps=[own.scores(0)])
        copy_keys(k_ring, k_desc, batch, key_head, KEY_SLOTS, n, BLOCK_N)
        P, m, l, _, _ = own.softmax(S, m, l, (n - 1) * BLOCK_N, MASKED)
        P = own.operand(P)
        if IS_CAUSAL:  # otherwise only the first tile can need a mask
            for i in range(1, masked):
                P, O, m, l = take_and_copy(
                    own, k_desc, v_desc, batch, key_head, i, n, P, O, m, l, True
                )
        for i in range(gl.maximum(masked, 1), n):
            P, O, m, l = take_and_copy(
                own, k_desc, v_desc, batch, key_head, i, n, P, O, m, l, False
            )
        O = warpgroup_mma_wait(0, deps=[own.output(n - 1, P, O)])

    l = row_sums(l, ROW_LAYOUT)
    total = gl.where(l == 0.0, 1.0, l)  # a row that sees no key: 0 / 1
    q.store(own.rescale(O, 1.0 / total).to(q.dtype))  # Q has been read
    fence_async_shared()  # TMA sees what the warps have stored
    tma.async_store(out_desc, [batch, head, first_query, 0], q_ring.slots.index(0))
    rows = gl.arange(0, ROWS, ROW_LAYOUT)
    query = first_query + rows % QUERIES
    pair = batch * nheads + head + rows // QUERIES
    lse = m * scale_log2 * LN2 + gl.log(total)
    gl.store(lse_ptr + pair.to(gl.int64) * seqlen_q + query, lse, mask=query < seqlen_q)
    tma.store_wait(0)  # shared memory is another program's once this one has ended
