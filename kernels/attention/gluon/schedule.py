"""The order of the tiles of queries, and which keys each of them sees."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.language.core import _aggregate as aggregate

SIZES = ["seqlen_q", "seqlen_k", "nheads", "pairs", "heads_in_l2"]
"""Arguments that are never constants, not even where they are 1: an aggregate has fields of types
that it names, and no length needs a compilation of its own."""


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
        """Batch, first head and first query of a tile.

        Every other round of persistent programs turned around, as in v5, gained nothing at any
        length on an H200, and lost up to 9 %.
        """
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
