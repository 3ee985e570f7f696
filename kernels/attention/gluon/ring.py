"""A ring of shared memory, which TMA fills and consumers empty."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.language.core import _aggregate as aggregate


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
    and not used again would have its memory taken by the next tiles, and PTX forbids to write over
    a barrier that is not invalidated.
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
