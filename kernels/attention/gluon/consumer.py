"""A warp group that takes keys into its O, m and l, and the step of the online softmax."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait
from triton.language.core import _aggregate as aggregate

from kernels.attention.gluon.ring import Ring
from kernels.attention.gluon.schedule import Schedule

MOST_GROWTH = gl.constexpr(8.0)
"""How many powers of two a maximum may lie below the true one: P is at most 256."""


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
