"""Tiles of queries in shared memory, which of them see a program's keys, and the mask."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.language.core import _aggregate as aggregate

from kernels.attention.gluon.ring import Ring, make_ring

SIZES = ["seqlen_q", "seqlen_k", "padded", "nheads", "pairs", "heads_in_l2"]
"""Arguments that are never constants: see kernels/attention/gluon/schedule.py."""


@aggregate
class Rows:
    """A ring of tiles of queries, each with a number for each query. One barrier stands for both.
    """

    ring: Ring
    numbers: gl.shared_memory_descriptor  # float32 [SLOTS, BLOCK_M]

    @gluon.jit
    def copy(self, desc, numbers_desc, coordinates, number, n):
        """Start to copy tile n, when its slot is empty. number: where its numbers begin."""
        slot = n % self.ring.SLOTS
        full = self.ring.full.index(slot)
        self.ring.wait_empty(n)
        mbarrier.expect(full, desc.nbytes_per_cta + numbers_desc.nbytes_per_cta)
        tma.async_load(desc, coordinates, full, self.ring.slots.index(slot))
        tma.async_load(numbers_desc, [number], full, self.numbers.index(slot))

    @gluon.jit
    def load_numbers(self, n, LAYOUT: gl.constexpr):
        return self.numbers.index(n % self.ring.SLOTS).load(LAYOUT)


@gluon.jit
def make_rows(desc, numbers_desc, SLOTS: gl.constexpr, CONSUMERS: gl.constexpr):
    numbers = gl.allocate_shared_memory(
        gl.float32, [SLOTS] + numbers_desc.block_shape, numbers_desc.layout
    )
    return Rows(make_ring(desc, SLOTS, CONSUMERS), numbers)


@aggregate
class Keys:
    """The keys of a program, and which queries see them."""

    batch: gl.tensor
    key_head: gl.tensor
    first_key: gl.tensor
    nheads: gl.tensor
    seqlen_q: gl.tensor
    seqlen_k: gl.tensor
    padded: gl.tensor
    IS_CAUSAL: gl.constexpr
    EVEN_N: gl.constexpr
    HEADS_PER_KEY_HEAD: gl.constexpr
    BLOCK_M: gl.constexpr
    BLOCK_N: gl.constexpr

    @gluon.jit
    def tiles(self):
        """The first tile of queries that sees any of the keys, the first that sees all of them, and
        the number of tiles."""
        n = gl.cdiv(self.seqlen_q, self.BLOCK_M)
        begin, whole = 0, 0
        if self.IS_CAUSAL:  # key n is seen by the queries from n - (seqlen_k - seqlen_q) on
            first = self.first_key - (self.seqlen_k - self.seqlen_q)
            begin = gl.minimum(gl.maximum(first, 0) // self.BLOCK_M, n)
            whole = gl.minimum(gl.cdiv(gl.maximum(first + self.BLOCK_N - 1, 0), self.BLOCK_M), n)
        if not self.EVEN_N:
            whole = gl.where(self.first_key + self.BLOCK_N > self.seqlen_k, n, whole)
        return begin, whole, n

    @gluon.jit
    def head(self, shared):
        """The n-th head that shares the keys."""
        return self.key_head * self.HEADS_PER_KEY_HEAD + shared

    @gluon.jit
    def numbers(self, head):
        """Where the numbers of a head's queries begin."""
        return (self.batch * self.nheads + head) * self.padded

    @gluon.jit
    def hide(self, P, first_row, i):
        """P, [rows, BLOCK_M], with 0 where tile i of the queries does not see the key. first_row:
        of P, among the program's keys."""
        LAYOUT: gl.constexpr = P.type.layout
        keys = self.first_key + first_row + gl.arange(0, P.shape[0], gl.SliceLayout(1, LAYOUT))
        if self.IS_CAUSAL:
            first_query = i * self.BLOCK_M + (self.seqlen_k - self.seqlen_q)
            queries = gl.arange(0, self.BLOCK_M, gl.SliceLayout(0, LAYOUT))
            P = gl.where((keys - first_query)[:, None] <= queries[None, :], P, 0.0)
        if not self.EVEN_N:
            P = gl.where((keys < self.seqlen_k)[:, None], P, 0.0)
        return P


@gluon.jit
def copy_rows(keys, q_rows, d_out_rows, q_desc, lse2_desc, d_out_desc, delta_desc):
    """Start to copy each tile of queries that sees any of the keys, when its slots are empty."""
    begin, _, end = keys.tiles()
    n = 0
    for shared in range(keys.HEADS_PER_KEY_HEAD):
        head = keys.head(shared)
        for i in range(begin, end):
            query = i * keys.BLOCK_M
            at, number = [keys.batch, head, query, 0], keys.numbers(head) + query
            q_rows.copy(q_desc, lse2_desc, at, number, n)
            d_out_rows.copy(d_out_desc, delta_desc, at, number, n)
            n += 1
