"""Attention: right against torch in float64, over lengths and masks; every version against torch's flash and cuDNN backends."""

import math
from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from course.benching.benchmarks import Function, Operation, Study
from course.verifying.inputs import Case, Input
from kernels.flash_attention import (
    flash_attention,
    flash_attention_v1,
    flash_attention_v2,
    flash_attention_v3,
    flash_attention_v4,
)

TOKENS = 2**14
"""Batch times length, whatever the length: so every length has as many rows."""
WIDTH = 2048
"""Heads times head dimension."""


def _reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: int = 0) -> torch.Tensor:
    """Written out; a query that sees no key gets 0."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril(
            k.shape[2] - q.shape[2]
        )
        scores = scores.masked_fill(~seen, -math.inf)
    return torch.softmax(scores, -1).masked_fill(scores == -math.inf, 0) @ v


def _cases() -> list[Case]:
    found = []
    for dtype in (torch.float16, torch.bfloat16):
        for causal in (0, 1):
            for queries, keys, head_dim in (
                (1, 1, 16),
                (64, 64, 64),
                (65, 130, 64),
                (130, 65, 40),
                (33, 63, 128),
                (20, 70, 256),
            ):
                q, kv = (
                    Input((1, 4, queries, head_dim), dtype),
                    Input((1, 2, keys, head_dim), dtype),
                )
                found.append(Case((q, kv, kv), seed=queries, scalars=(causal,)))
            for queries, keys, head_dim in ((1000, 4097, 64), (1024, 2048, 128), (1024, 640, 256)):
                q, kv = (
                    Input((2, 4, queries, head_dim), dtype),
                    Input((2, 4, keys, head_dim), dtype),
                )
                found.append(Case((q, kv, kv), seed=queries, scalars=(causal,)))
    return found


def _by(backend: SDPBackend, causal: bool) -> Function:
    def by_torch(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(backend):
            out: torch.Tensor = scaled_dot_product_attention(q, k, v, is_causal=causal)
        return out

    return by_torch


def operations_of(length: int, causal: bool) -> int:
    """Multiplications and additions of a call of a study: 4 * B * H * N * N * D, half of them under a causal mask."""
    return 4 * TOKENS * length * WIDTH // (2 if causal else 1)


def _study(head_dim: int, causal: bool, dtype: torch.dtype = torch.float16) -> Study:
    def make(length: int) -> tuple[torch.Tensor, ...]:
        shape = (TOKENS // length, WIDTH // head_dim, length, head_dim)
        return tuple(torch.randn(shape, dtype=dtype, device="cuda") for _ in "qkv")

    def ours(version: Function) -> Callable[[int], Function]:
        return lambda length: partial(version, causal=causal)

    kind = "_causal" if causal else ""
    kind += "_bfloat16" if dtype == torch.bfloat16 else ""
    series: dict[str, Callable[[int], Function | None]] = {
        "flash_attention": ours(cast(Function, flash_attention))
    }
    if (
        head_dim == 128 and dtype == torch.float16
    ):  # one head dimension shows what each version and each way of torch gains
        series |= {
            version.__name__: ours(version)
            for version in VERSIONS
            if version.__name__ not in series
        }
        series |= {"torch, math": lambda length: _by(SDPBackend.MATH, causal)}
        series |= {"torch, efficient": lambda length: _by(SDPBackend.EFFICIENT_ATTENTION, causal)}
    series |= {"torch, flash": lambda length: _by(SDPBackend.FLASH_ATTENTION, causal)}
    series |= {"torch, cuDNN": lambda length: _by(SDPBackend.CUDNN_ATTENTION, causal)}
    return Study(
        name=f"flash_attention_{head_dim}{kind}",
        x_name="length",
        xs=[2**k for k in range(9, 15)],
        make=make,
        bytes=lambda q, k, v: (
            2 * q.nbytes + k.nbytes + v.nbytes
        ),  # q, k and v read once, the result written once
        operations=lambda q, k, v: operations_of(q.shape[2], causal),
        series=series,
    )


# Without return_lse, which nobody gives them here, they return a tensor alone. v5 takes some shapes only: flash_attention
# gives it those, and the rest to v4.
VERSIONS = [
    cast(Function, version)
    for version in (
        flash_attention_v1,
        flash_attention_v2,
        flash_attention_v3,
        flash_attention_v4,
        flash_attention,
    )
]

OPERATION = Operation(
    name="flash_attention",
    ladder={version.__name__: version for version in VERSIONS},
    reference=_reference,
    cases=_cases(),
    absolute=5e-3,  # probabilities are rounded to the dtype of v, and their products with v cancel
    studies=[
        _study(head_dim, causal, dtype)
        for dtype in (torch.float16, torch.bfloat16)
        for head_dim in (64, 128, 256)
        for causal in (False, True)
    ],
)
