"""The settings of attention in `tl`, v1 to v5, and what was measured to choose them."""

import functools
from typing import NamedTuple

import torch
import triton

from kernels.device import gpu_of


class Settings(NamedTuple):
    """How a launch is cut and run."""

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int


PLAIN = Settings(64, 64, 4, 2)
"""v1 and v2, for every head dimension: 256 take 160 KiB of shared memory. They were not chosen for
speed."""

# Measured on an H200 with Triton 3.7.1 on 2026-11-20, in float16, batch * length = 16,384, heads *
# head_dim = 2,048, 5 to 10 candidates a head dimension: over lengths of 1,024, 4,096 and 16,384,
# full and causal, none was faster by more than 1 %. The number of stages counts most: with 2 in
# place of 3, tiles of 128 x 64 and 128 dimensions are a fifth slower. Then what is asked of the L2
# cache: tiles of 64 queries keep up to some 1,024 keys only, where the dot takes longer than exp2.
# Scores computed a tile ahead of their softmax were 10 to 55 % slower, and separate sums for each
# thread changed less than runs differ.
SETTINGS: dict[int, dict[int, Settings]] = {
    64: {
        16: Settings(32, 32, 4, 1),
        64: Settings(32, 32, 4, 1),
        128: Settings(16, 32, 4, 1),
        256: Settings(16, 16, 4, 1),
    },
    99: {
        16: Settings(64, 64, 4, 3),
        64: Settings(64, 64, 4, 3),
        128: Settings(128, 32, 8, 2),
        256: Settings(64, 32, 8, 2),
    },
    227: {
        64: Settings(128, 64, 8, 3),
        128: Settings(128, 128, 8, 3),
        256: Settings(128, 64, 8, 2),
    },
}
"""KiB of shared memory -> BLOCK_HEADDIM, up to which -> Settings of v3.

Those of 64 and 99 KiB fit and spill nothing; their speed was not measured.
"""

# Measured on an H200 with Triton 3.7.1 on 2026-11-20. What they reach with the pinned Triton is
# recorded: `course recorded flash_attention_64` and its like.
DESCRIPTOR_SETTINGS: dict[int, Settings] = {
    64: Settings(64, 128, 4, 2),
    128: Settings(128, 128, 8, 3),
    256: Settings(128, 64, 8, 2),
}
"""BLOCK_HEADDIM, up to which -> Settings of v4."""

# Measured on an H200 with Triton 3.7.1 on 2026-11-20. Persistent programs gain a third at 128
# dimensions and 1,024 keys, and next to nothing at 16,384. Three stages compile and give wrong
# results; so does a mask made of tensors from before a loop that is specialized itself. Without
# specialized warps, dots left to run under the softmax of the next tile gained 4 % at 128
# dimensions (Triton waits for every dot there but the last of a loop), and lost 15 % at 256. With
# 64 dimensions v5 is 18 % slower than v4.
SPECIALIZED_SETTINGS: dict[int, Settings] = {
    128: Settings(128, 128, 4, 2),
    256: Settings(128, 64, 4, 2),
}
"""head_dim -> Settings of v5."""
PERSISTENT = (128,)
"""The head dimensions that leave room for a second tile of q."""


def up_to(table: dict[int, Settings], head_dim: int) -> Settings:
    """The row of a table by head dimension, up to which each row goes."""
    return next(table[most] for most in sorted(table) if head_dim <= most)


def settings_for(head_dim: int, shared_kib: int) -> Settings:
    """The largest settings of v3 for programs that may have so many KiB of shared memory."""
    fitting = [limit for limit in SETTINGS if limit <= shared_kib]
    if not fitting:
        raise ValueError(
            f"flash_attention: this GPU has {shared_kib} KiB of shared memory for a program, "
            f"and {min(SETTINGS)} are needed."
        )
    return up_to(SETTINGS[max(fitting)], head_dim)


def settings_on(q: torch.Tensor) -> Settings:
    """The settings of v3 on the GPU of q, [batch, heads, length, head_dim]: the smallest in the
    interpreter, so that a short example has several tiles too."""
    shared_kib = gpu_of(q).shared_kib if q.is_cuda else min(SETTINGS)
    return settings_for(q.shape[3], shared_kib)


@functools.cache
def triton_version() -> tuple[int, ...]:
    return tuple(int(part) for part in triton.__version__.split(".")[:2])
