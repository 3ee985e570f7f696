"""The settings of attention's gradient in `tl`, and what was measured to choose them."""

import torch

from kernels.attention.settings import Settings, up_to
from kernels.device import gpu_of

Table = dict[int, dict[int, Settings]]
"""KiB of shared memory -> BLOCK_HEADDIM, up to which -> Settings."""
MULTIPLE = 128
"""The largest tile of queries: lse2 and delta have rows of a multiple of it."""

# Measured on an H200 with Triton 3.9.0 in November 2026, in float16, batch * length = 16,384, heads
# * head_dim = 2,048, at lengths of 1,024 and 4,096, full and causal, 4 to 8 candidates each. With
# 64 and 128 dimensions at 16,384 too, 7 to 13 candidates. Those of 64 and 99 KiB fit; their speed
# was not measured.
KEYS: Table = {
    64: {64: Settings(32, 32, 4, 1), 128: Settings(16, 32, 4, 1), 256: Settings(16, 16, 4, 1)},
    99: {64: Settings(32, 64, 4, 2), 128: Settings(32, 32, 4, 2), 256: Settings(16, 32, 4, 1)},
    227: {64: Settings(64, 64, 4, 3), 128: Settings(64, 128, 8, 3), 256: Settings(32, 32, 4, 2)},
}
"""Of keys_kernel for dK and dV together, and for dQ beside them."""
KEYS_UNMASKED: Table = KEYS | {227: KEYS[227] | {64: Settings(128, 64, 4, 2)}}
"""Of keys_kernel for dK and dV together without a causal mask, which hides more of larger tiles."""
D_K: Table = KEYS | {227: {256: Settings(64, 64, 4, 2)}}
"""Of keys_kernel for dK alone."""
D_V: Table = KEYS | {227: {256: Settings(64, 128, 8, 2)}}
"""Of keys_kernel for dV alone."""
MOST_TOGETHER = 128
"""The most dimensions at which a program of v1 computes both dK and dV. With more, the sums of both
fill the registers, so there are two launches, and S is computed once more."""
QUERIES: Table = {
    64: {64: Settings(32, 32, 4, 1), 128: Settings(32, 16, 4, 1), 256: Settings(16, 16, 4, 1)},
    99: {64: Settings(64, 32, 4, 2), 128: Settings(32, 32, 4, 2), 256: Settings(32, 16, 4, 1)},
    227: {64: Settings(128, 64, 4, 3), 128: Settings(128, 64, 8, 3), 256: Settings(128, 32, 8, 2)},
}
"""Of queries_kernel."""


def settings_in(table: Table, x: torch.Tensor) -> Settings:
    """The row for x, [batch, heads, length, head_dim], on its GPU: the smallest in the interpreter,
    so that a short example has several."""
    shared_kib = gpu_of(x).shared_kib if x.is_cuda else min(table)
    fitting = [limit for limit in table if limit <= shared_kib]
    if not fitting:
        raise ValueError(
            f"flash_attention: this GPU has {shared_kib} KiB of shared memory for a program, and "
            f"the gradient needs {min(table)}."
        )
    return up_to(table[max(fitting)], x.shape[3])
