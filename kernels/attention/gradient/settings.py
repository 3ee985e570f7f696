"""The settings of attention's gradient in `tl`, and what was measured to choose them."""

import torch

from kernels.attention.settings import Settings, up_to
from kernels.device import gpu_of

Table = dict[int, dict[int, Settings]]
"""KiB of shared memory -> BLOCK_HEADDIM, up to which -> Settings."""
MULTIPLE = 128
"""The largest tile of queries: lse2 and delta have rows of a multiple of it."""

KEYS: Table = {
    64: {64: Settings(32, 32, 4, 1), 128: Settings(16, 32, 4, 1), 256: Settings(16, 16, 4, 1)},
    99: {64: Settings(32, 64, 4, 2), 128: Settings(32, 32, 4, 2), 256: Settings(16, 32, 4, 1)},
    227: {64: Settings(64, 128, 8, 2), 128: Settings(64, 128, 8, 2), 256: Settings(32, 64, 8, 1)},
}
QUERIES: Table = {
    64: {64: Settings(32, 32, 4, 1), 128: Settings(32, 16, 4, 1), 256: Settings(16, 16, 4, 1)},
    99: {64: Settings(64, 32, 4, 2), 128: Settings(32, 32, 4, 2), 256: Settings(32, 16, 4, 1)},
    227: {64: Settings(128, 64, 8, 2), 128: Settings(128, 64, 8, 2), 256: Settings(64, 32, 8, 2)},
}


def settings_in(table: Table, x: torch.Tensor) -> Settings:
    """The row for x, [batch, heads, length, head_dim], on its GPU: the smallest in the interpreter,
    to which every tile costs the same whatever its size."""
    shared_kib = gpu_of(x).shared_kib if x.is_cuda else min(table)
    fitting = [limit for limit in table if limit <= shared_kib]
    if not fitting:
        raise ValueError(
            f"flash_attention: this GPU has {shared_kib} KiB of shared memory for a program, and "
            f"the gradient needs {min(table)}."
        )
    return up_to(table[max(fitting)], x.shape[3])
