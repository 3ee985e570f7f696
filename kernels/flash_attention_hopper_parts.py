"""What both attention kernels for compute capability 9.0 are made of, in Gluon: a ring of shared
memory, the order of the tiles, and a warp group that takes keys into its O, m and l.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.language.core import _aggregate as aggregate

SIZES = ["seqlen_q", "seqlen_k", "nheads", "pairs", "heads_in_l2"]
"""Arguments that are never constants, not even where they are 1: an aggregate has fields of types
that it names, and no length needs a compilation of its own."""
MOST_GROWTH = gl.constexpr(8.0)
"""How many powers of two a maximum may lie below the true one: P is at most 256."""


@aggregate
class Ring:
    """SLOTS tiles of shared memory, filled in turn and emptied in the same order.

    Tile n, counted over all that pass through the ring, lies in slot n % SLOTS, in round
    n // SLOTS. A slot has two mbarriers: a phase of `full` ends when the tile has arrived, and one
    of `empty` when every consumer has released it. A wait names the phase that must have ended, by
    its parity.
    """

    slots: gl.shared_memory_descriptor  # [SLOTS, *a descriptor's block]
    full: gl.shared_memory_descriptor
    empty: gl.shared_memory_descriptor
    SLOTS: gl.constexpr

    @gluon.jit
    def wait_empty(self, n):
        # In round 0 this is the phase before the first, which counts as ended.
        mbarrier.wait(self.empty.index(n % self.SLOTS), (n // self.SLOTS & 1) ^ 1)

    @gluon.jit
    def copy(self, desc, coordinates, n, pred=True):
        """Start to copy tile n from a descriptor's tensor; `full` counts the bytes that arrive."""
        slot = n % self.SLOTS
        full = self.full.index(slot)
        mbarrier.expect(full, desc.nbytes_per_cta, pred=pred)
        tma.async_load(desc, coordinates, full, self.slots.index(slot), pred=pred)

    @gluon.jit
    def wait_full(self, n, SHAPE: gl.constexpr):
        """Tile n as a matrix of this shape, when it has arrived."""
        slot = n % self.SLOTS
        mbarrier.wait(self.full.index(slot), n // self.SLOTS & 1)
        return self.slots.index(slot).reshape(SHAPE)

    @gluon.jit
    def release(self, n):
        """Say that this consumer has read tile n. All its warps meet here, so all have."""
        mbarrier.arrive(self.empty.index(n % self.SLOTS), count=1)


@gluon.jit
def make_ring(desc, SLOTS: gl.constexpr, RELEASES: gl.constexpr):
    """A ring of a descriptor's blocks; RELEASES: how many consumers release each tile.

    With 0 nobody waits for an empty slot, and there are no such barriers: one that is initialized
    and not used again would have its memory taken by the next tiles.
    """
    slots = gl.allocate_shared_memory(desc.dtype, [SLOTS] + desc.block_shape, desc.layout)
    full = mbarrier.allocate_mbarrier(batch=SLOTS)
    empty = full
    if RELEASES > 0:
        empty = mbarrier.allocate_mbarrier(batch=SLOTS)
    for slot in gl.static_range(SLOTS):
        mbarrier.init(full.index(slot), count=1)
        if RELEASES > 0:
            mbarrier.init(empty.index(slot), count=RELEASES)
    return Ring(slots, full, empty, SLOTS)


@aggregate
class Schedule:
    """All tiles of queries, in the order in which programs take them.

    `pairs` counts heads of all batches. The tiles of `heads_in_l2` of them come side by side, so
    that programs which run together read the same keys. Of a causal head the longest tiles come
    first, with LONGEST_FIRST, and short ones fill the end. A tile has BLOCK_M queries of
    HEADS_PER_TILE heads, which share their keys.
    """

    seqlen_q: gl.tensor
    seqlen_k: gl.tensor
    nheads: gl.tensor
    pairs: gl.tensor
    heads_in_l2: gl.tensor
    BLOCK_M: gl.constexpr
    BLOCK_N: gl.constexpr
    HEADS_PER_TILE: gl.constexpr
    IS_CAUSAL: gl.constexpr
    LONGEST_FIRST: gl.constexpr

    @gluon.jit
    def tiles(self):
        return gl.cdiv(self.seqlen_q, self.BLOCK_M) * (self.pairs // self.HEADS_PER_TILE)

    @gluon.jit
    def tile(self, number):
        """Batch, first head and first query of a tile."""
        blocks = gl.cdiv(self.seqlen_q, self.BLOCK_M)
        columns = self.pairs // self.HEADS_PER_TILE
        first = number // (self.heads_in_l2 * blocks) * self.heads_in_l2
        within = number % (self.heads_in_l2 * blocks)
        together = gl.minimum(self.heads_in_l2, columns - first)  # fewer at the end
        block = within // together
        if self.IS_CAUSAL and self.LONGEST_FIRST:
            block = blocks - 1 - block
        pair = (first + within % together) * self.HEADS_PER_TILE
        return pair // self.nheads, pair % self.nheads, block * self.BLOCK_M

    @gluon.jit
    def keys(self, first_query):
        """How many tiles of keys the queries of a tile see, and how many of these, from the last
        one on, hide some keys from some of them."""
        n = gl.cdiv(self.seqlen_k, self.BLOCK_N)
        whole = self.seqlen_k // self.BLOCK_N
        if self.IS_CAUSAL:  # query i sees the keys up to i + seqlen_k - seqlen_q
            last_key = first_query + self.seqlen_k - self.seqlen_q
            n = gl.maximum(gl.minimum(n, gl.cdiv(last_key + self.BLOCK_M, self.BLOCK_N)), 0)
            whole = gl.maximum(gl.minimum(whole, (last_key + 1) // self.BLOCK_N), 0)
        return n, n - whole


@gluon.jit
def lane_sums(P):
    """The sums of columns 8 apart, [ROWS, 8]: each thread adds up what it holds. The 4 threads of a
    row exchange nothing until the end, when `row_sums` adds up what they have."""
    ROWS: gl.constexpr = P.shape[0]
    COLUMNS: gl.constexpr = P.shape[1]
    return gl.sum(P.reshape([ROWS, COLUMNS // 8, 8]), axis=1)


@gluon.jit
def row_sums(l, LAYOUT: gl.constexpr):
    return gl.convert_layout(gl.sum(l, axis=1), LAYOUT)  # [ROWS]


@gluon.jit
def softmax_step(S, m, l, scale_log2, MASKED: gl.constexpr, LAZY_RESCALE: gl.constexpr):
    """The online softmax takes in a tile of scores: P, the new m and l, alpha, and whether O has to
    be multiplied by it. l is what `lane_sums` gives.

    With LAZY_RESCALE the old m stays as long as the maximum of no row outgrows it by MOST_GROWTH.
    Any m gives the same out and log-sum-exp, since P, l and O are all relative to it, and P stays
    in the range of float16 (FlashAttention-4 rescales conditionally as well).
    """
    m_new = gl.maximum(m, gl.max(S, axis=1))  # [ROWS]
    grown = True
    if LAZY_RESCALE:
        near = m_new * scale_log2 <= m * scale_log2 + MOST_GROWTH
        grown = gl.min(near.to(gl.int32), axis=0) == 0  # one answer for all rows
        m_new = gl.where(grown, m_new, m)
    base = m_new
    if MASKED:  # where a row sees no key yet, -inf - -inf would be NaN
        base = gl.where(m_new == -float("inf"), 0.0, m_new)
    P = gl.exp2(S * scale_log2 - (base * scale_log2)[:, None])  # a multiply-add, an exp2
    alpha = gl.exp2((m - base) * scale_log2)
    l = l * gl.convert_layout(alpha, gl.SliceLayout(1, l.type.layout))[:, None] + lane_sums(P)
    return P, m_new, l, alpha, grown


@aggregate
class Consumer:
    """What a consumer has in hand while it goes through the keys of its ROWS queries.

    Its scores and outputs lie in the registers of 4 warps as `warpgroup_mma` leaves them: 16 rows
    per warp, and a row in 4 threads.
    """

    q: gl.shared_memory_descriptor  # [ROWS, D]
    k_ring: Ring
    v_ring: Ring
    schedule: Schedule
    first_query: gl.tensor
    scale_log2: gl.tensor
    ROWS: gl.constexpr
    D: gl.constexpr
    LAZY_RESCALE: gl.constexpr

    @gluon.jit
    def scores(self, n):
        """Start S = Q @ K.T of tile n in the ring of keys, [ROWS, BLOCK_N]."""
        BLOCK_N: gl.constexpr = self.schedule.BLOCK_N
        LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
        k = self.k_ring.wait_full(n, [BLOCK_N, self.D])
        zeros = gl.zeros([self.ROWS, BLOCK_N], gl.float32, LAYOUT)
        return warpgroup_mma(self.q, k.permute((1, 0)), zeros, use_acc=False, is_async=True)

    @gluon.jit
    def output(self, n, P, O):
        """Start O + P @ V of tile n in the ring of values."""
        v = self.v_ring.wait_full(n, [self.schedule.BLOCK_N, self.D])
        return warpgroup_mma(P, v, O, is_async=True)

    @gluon.jit
    def operand(self, P):
        """P as an operand of the next product, rounded: it stays in the registers where it is."""
        LAYOUT: gl.constexpr = gl.DotOperandLayout(0, P.type.layout, 2)
        return gl.convert_layout(P.to(self.q.dtype), LAYOUT)

    @gluon.jit
    def softmax(self, S, m, l, first_key, MASKED: gl.constexpr):
        if MASKED:
            LAYOUT: gl.constexpr = S.type.layout
            sizes = self.schedule
            keys = first_key + gl.arange(0, sizes.BLOCK_N, gl.SliceLayout(0, LAYOUT))
            visible = (keys < sizes.seqlen_k)[None, :]
            if sizes.IS_CAUSAL:
                rows = gl.arange(0, self.ROWS, gl.SliceLayout(1, LAYOUT))
                queries = self.first_query + rows % (self.ROWS // sizes.HEADS_PER_TILE)
                last_key = queries + (sizes.seqlen_k - sizes.seqlen_q)
                visible = visible & (keys[None, :] <= last_key[:, None])
            S = gl.where(visible, S, -float("inf"))
        return softmax_step(S, m, l, self.scale_log2, MASKED, self.LAZY_RESCALE)

    @gluon.jit
    def rescale(self, O, alpha):
        return O * gl.convert_layout(alpha, gl.SliceLayout(1, O.type.layout))[:, None]

    @gluon.jit
    def take(self, n, first_key, O, m, l, MASKED: gl.constexpr):
        """Tile n, one step after the other: the tensor cores wait for exp2, and exp2 for them."""
        S = warpgroup_mma_wait(0, deps=[self.scores(n)])
        self.k_ring.release(n)
        P, m, l, alpha, grown = self.softmax(S, m, l, first_key, MASKED)
        if grown:
            O = self.rescale(O, alpha)
        O = warpgroup_mma_wait(0, deps=[self.output(n, self.operand(P), O)])
        self.v_ring.release(n)
        return O, m, l
