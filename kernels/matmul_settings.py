"""The settings of every version of matmul, and what was measured to choose them: on an H200 with
Triton 3.7.1, and not since. What they reach with the pinned Triton is recorded."""

import functools
import math
from typing import NamedTuple

import torch


class Tiles(NamedTuple):
    """The settings of a launch."""

    block_m: int
    block_n: int
    block_k: int
    num_warps: int
    num_stages: int
    group_m: int = 8
    """Rows of tiles in a group."""

    @property
    def blocks(self) -> dict[str, int]:
        return {"BLOCK_M": self.block_m, "BLOCK_N": self.block_n, "BLOCK_K": self.block_k}

    @property
    def compiled_with(self) -> dict[str, int]:
        return {"num_warps": self.num_warps, "num_stages": self.num_stages}

    def count(self, c: torch.Tensor) -> int:
        """The tiles of c. triton.cdiv, made for kernels too, would take longer than all this."""
        return -(-c.shape[0] // self.block_m) * -(-c.shape[1] // self.block_n)


SMALL = {
    "16 bits": Tiles(64, 64, 32, num_warps=8, num_stages=3),
    "tf32": Tiles(64, 64, 32, num_warps=8, num_stages=3),
    # With 32 along K a register spills on sm_90.
    "ieee": Tiles(64, 64, 16, num_warps=8, num_stages=3),
}
"""What is multiplied -> the tiles of v1 and v2: they fit every GPU."""

# KiB of shared memory that a program may have, and what is multiplied -> (the most elements of c,
# settings), for pointers. 227: the fastest of those tried on an H200 with Triton 3.7.1 on
# 2026-11-20; at 8192 x 8192 x 8192 in float16, 128 x 256 tiles reached 640 TFLOP/s, 128 x 128 ones
# 505, where torch had 680. 64 and 99: what compiles without a spill for sm_75, sm_80 and sm_89, not
# timed.
TILES: dict[tuple[int, str], tuple[tuple[float, Tiles], ...]] = {
    (64, "16 bits"): ((math.inf, Tiles(64, 64, 32, 8, 2)),),
    (64, "tf32"): ((math.inf, Tiles(64, 64, 16, 4, 2)),),
    (64, "ieee"): ((math.inf, Tiles(64, 64, 16, 4, 2)),),
    (99, "16 bits"): ((2**21, Tiles(64, 64, 32, 4, 3)), (math.inf, Tiles(128, 128, 32, 8, 3))),
    (99, "tf32"): ((2**21, Tiles(64, 64, 32, 4, 3)), (math.inf, Tiles(128, 128, 32, 8, 3))),
    (99, "ieee"): ((math.inf, Tiles(64, 64, 16, 4, 3)),),
    (227, "16 bits"): (
        (2**21, Tiles(64, 128, 128, 4, 4)), (2**23, Tiles(128, 256, 64, 8, 3)),
        (math.inf, Tiles(128, 256, 64, 8, 4)),
    ),
    (227, "tf32"): ((2**21, Tiles(64, 128, 32, 4, 4)), (math.inf, Tiles(128, 128, 32, 8, 4))),
    (227, "ieee"): ((math.inf, Tiles(64, 128, 16, 4, 3)),),
}


def tiles_for(shared_kib: int, kind: str, elements: int) -> Tiles:
    """The settings of v3 for a c of so many elements, on a GPU with so much shared memory."""
    return next(tiles for most, tiles in TILES[row_of(shared_kib), kind] if elements <= most)


@functools.cache
def row_of(shared_kib: int) -> int:
    """The rows of TILES that a GPU takes whose programs may have so much shared memory."""
    return max((kib for kib, _ in TILES if kib <= shared_kib), default=64)


class Plan(NamedTuple):
    """How to multiply by descriptors."""

    tiles: Tiles
    persistent: bool = False
    """Whether to take v5 rather than v4."""
    transpose_b: bool = False
    """Whether to copy a b whose columns are not contiguous: tensor cores take TF32 by columns."""


# Element size in bytes -> (the most elements of c, plan): the fastest of those tried on an H200
# with Triton 3.7.1 on 2026-11-20. In float32, b transposed first makes four times the speed, copy
# included.
PLANS: dict[int, tuple[tuple[float, Plan], ...]] = {
    2: (
        (2**21, Plan(Tiles(64, 128, 128, 4, 4))), (2**23, Plan(Tiles(128, 128, 64, 8, 3))),
        (math.inf, Plan(Tiles(128, 256, 64, 8, 4), persistent=True)),
    ),
    4: (
        (2**21, Plan(Tiles(64, 128, 64, 4, 4), transpose_b=True)),
        (2**23, Plan(Tiles(128, 256, 32, 8, 4), transpose_b=True)),
        (math.inf, Plan(Tiles(128, 256, 32, 8, 3), transpose_b=True)),
    ),
}

LARGE = {size: rows[-1][1] for size, rows in PLANS.items()}
"""Element size in bytes -> what v4 and v5 take whatever the size of c."""

MOST_BY_POINTERS = 2**23
"""The most elements of a 16-bit c that pointers read as fast, with 15 µs less CPU time."""

# At 64 times as much, 4097 x 4099 by 4099 x 4101 in float16, copies make almost five times the
# speed.
LEAST_TO_COPY = 2**30
"""An estimate of M * N * K from which copying for descriptors costs less than reading elements one
by one."""
