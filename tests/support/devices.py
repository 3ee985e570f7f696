"""What this machine's GPU has, asked of it: a test that needs more is skipped with the reason. In
CPU mode nothing lacks."""

from typing import Any

import pytest
import torch

from course import MODE

SHARED_KIB = {"matmul_v4": 227, "matmul_v5": 227, "flash_attention_v5": 227}
"""Shared memory that a program of these versions takes, whatever they are given. The others fit
every GPU."""
SHARED_KIB_OF_WIDE_HEADS = {
    "flash_attention_v1": (80, 160),
    "flash_attention_v2": (80, 160),
    "flash_attention_v4": (227, 227),
}
"""The same of those that keep whole heads, for up to 128 dimensions and for more."""
SHARED_KIB_OF_V4 = 73
"""Of flash_attention_v4 with up to 64 dimensions."""


def lacking(launcher: Any, head_dim: int = 64) -> str | None:
    """Why this GPU does not run a version of the ladders in kernels/; None where it does."""
    if not MODE.gpu or not hasattr(launcher, "__name__"):
        return None
    name, had = launcher.__name__, shared_kib()
    needed = SHARED_KIB.get(name, 0)
    if name in SHARED_KIB_OF_WIDE_HEADS and head_dim > 64:
        needed = SHARED_KIB_OF_WIDE_HEADS[name][head_dim > 128]
    elif name == "flash_attention_v4":
        needed = SHARED_KIB_OF_V4
    if needed > had:
        return (
            f"needs another GPU: {name} takes up to {needed} KiB of shared memory for a program,"
            f" and this GPU has {had}"
        )
    if name == "flash_attention_v5" and torch.cuda.get_device_capability()[0] != 9:
        return (
            "needs another GPU: flash_attention_v5 was written for compute capability 9, and this"
            " GPU has another"
        )
    return None


def needs(launcher: Any, head_dim: int = 64) -> None:
    """Skip where this GPU does not run this version of a ladder."""
    if reason := lacking(launcher, head_dim):
        pytest.skip(reason)


def needs_free_gib(gib: float) -> None:
    """Skip where so much of the GPU's memory is not free."""
    if not MODE.gpu:
        return
    torch.cuda.empty_cache()  # what PyTorch keeps for later is free for this
    free, total = (size / 2**30 for size in torch.cuda.mem_get_info())
    if free < gib:
        pytest.skip(f"needs {gib:g} GiB of free GPU memory, and {free:.1f} of {total:.1f} are free")


def needs_shared_kib(kib: int) -> None:
    """Skip where a program may have less shared memory."""
    if MODE.gpu and shared_kib() < kib:
        pytest.skip(
            f"needs {kib} KiB of shared memory for a program, and this GPU has {shared_kib()}"
        )


def needs_capability(major: int, minor: int, what: str) -> None:
    """Skip below this compute capability, since `what` is missing there."""
    if MODE.gpu and torch.cuda.get_device_capability() < (major, minor):
        pytest.skip(f"needs {what}, which GPUs have from compute capability {major}.{minor} on")


def dtypes_of(*dtypes: torch.dtype) -> list[torch.dtype]:
    """Those of the dtypes that attention takes in this mode: bfloat16 on a GPU from 8.0 on, and not
    in the interpreter."""
    known = MODE.gpu and torch.cuda.get_device_capability() >= (8, 0)
    return [dtype for dtype in dtypes if dtype != torch.bfloat16 or known]


def shared_kib() -> int:
    """Shared memory that a program may have on this GPU."""
    return torch.cuda.get_device_properties().shared_memory_per_block_optin // 1024
