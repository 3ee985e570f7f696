"""The copy roof: how fast this GPU moves bytes when it does nothing else."""

from collections.abc import Callable
from statistics import median

import torch
from triton.testing import do_bench

ROOF_BYTES = 2**32
"""Read and written together by the copy that measures the roof: far more than any cache holds."""


def copy_tb_s() -> float:
    """The copy roof of this GPU: bytes read and written in a second, in 10^12. Takes at most a quarter of free memory."""
    free, _ = torch.cuda.mem_get_info()
    moved = min(ROOF_BYTES, free // 4 // 8 * 8)
    return moved / median(do_bench(copy_of(moved), warmup=20, rep=150, return_mode="all")) / 1e9


def copy_of(moved_bytes: int) -> Callable[..., torch.Tensor]:
    """A function that copies on the GPU, moving `moved_bytes` in all: half are read, half written.

    It takes any arguments and ignores them, so that it can stand as a peer of any function.
    """
    # Random bits: a GPU moves zeros with less power, and so faster, than real data.
    source = torch.randint(0, 2**31 - 1, (moved_bytes // 8,), dtype=torch.int32, device="cuda")
    target = torch.empty_like(source)
    return lambda *_: target.copy_(source)
