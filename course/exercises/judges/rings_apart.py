"""Attention whose keys and values are fetched by a producer each, around a learner's consumer.

In the lesson's kernel one producer fetches both in turn, so a buffer that is given back too early
may be safe by its order alone. Here nothing waits but for its own buffers.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from course.type_names import Kernel


@gluon.jit
def _fetch(desc, ring, full, empty, tiles, FIRST: gl.constexpr):
    """Every second tile from FIRST on, which lie in two of the ring's four buffers."""
    for i in range(tiles):
        slot, phase = (2 * i + FIRST) % 4, ((2 * i + FIRST) // 4) & 1
        mbarrier.wait(empty.index(slot), phase ^ 1)
        mbarrier.expect(full.index(slot), desc.nbytes_per_cta)
        tma.async_load(desc, [64 * i, 0], full.index(slot), ring.index(slot))


def rings_apart(consume: Kernel) -> Kernel:
    """A kernel for one tile of 64 queries per program, with the lesson's `consume`."""

    @gluon.jit
    def kernel(q_desc, k_desc, v_desc, out_ptr, tiles, scale):
        q = gl.allocate_shared_memory(q_desc.dtype, [64, 64], q_desc.layout)
        ring = gl.allocate_shared_memory(k_desc.dtype, [4, 64, 64], k_desc.layout)
        q_full = mbarrier.allocate_mbarrier()
        full = mbarrier.allocate_mbarrier(batch=4)
        empty = mbarrier.allocate_mbarrier(batch=4)
        mbarrier.init(q_full, count=1)
        for each in gl.static_range(4):
            mbarrier.init(full.index(each), count=1)
            mbarrier.init(empty.index(each), count=1)
        fence_async_shared()
        mbarrier.expect(q_full, q_desc.nbytes_per_cta)
        tma.async_load(q_desc, [gl.program_id(0) * 64, 0], q_full, q)
        parts = [
            (consume, (out_ptr, q, q_full, ring, full, empty, tiles, scale, 0, 1, True)),
            (_fetch, (k_desc, ring, full, empty, tiles, 0)),
            (_fetch, (v_desc, ring, full, empty, tiles, 1)),
        ]
        gl.warp_specialize(parts, [1, 1], [24, 24])

    made: Kernel = kernel
    return made
