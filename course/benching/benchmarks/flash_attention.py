"""Attention: right against torch in float64; fast against torch's flash and cuDNN backends."""

import itertools
from collections.abc import Callable
from functools import partial

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from course.benching.benchmarks import Function, Operation, Series, Study
from course.benching.series import versions_of
from course.verifying.inputs import Case, Input

TOKENS = 2**14
"""Batch times length, whatever the length: so every length has as many rows."""
WIDTH = 2048
"""Heads times head dimension."""


def probabilities(q: torch.Tensor, keys: torch.Tensor, causal: int) -> torch.Tensor:
    """The softmax of the scores; 0 where a query sees no key."""
    scores = q @ keys.mT * q.shape[-1] ** -0.5
    every = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
    hidden = every.triu(keys.shape[2] - q.shape[2] + 1) if causal else ~every
    # A finite number: a row of -inf has a softmax of NaN, whose gradient no mask undoes.
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, -1).masked_fill(hidden, 0)


def _reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: int = 0) -> torch.Tensor:
    """Written out; a query that sees no key gets 0."""
    keys, values = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    return probabilities(q, keys, causal) @ values


def _cases() -> list[Case]:
    def case(
        batch: int, key_heads: int, queries: int, keys: int, head_dim: int, dtype: torch.dtype,
        causal: int,
    ) -> Case:  # fmt: skip
        q = Input((batch, 4, queries, head_dim), dtype)
        k = Input((batch, key_heads, keys, head_dim), dtype)
        return Case((q, k, k), seed=queries, scalars=(causal,))

    shared_keys = (
        (1, 1, 16), (64, 64, 64), (65, 130, 64), (130, 65, 40), (33, 63, 128), (20, 70, 256)
    )  # fmt: skip
    large = ((1000, 4097, 64), (1024, 2048, 128), (1024, 640, 256))
    cases = []
    for dtype, causal in itertools.product((torch.float16, torch.bfloat16), (0, 1)):
        cases += [case(1, 2, *sizes, dtype, causal) for sizes in shared_keys]
        cases += [case(2, 4, *sizes, dtype, causal) for sizes in large]
    return cases


def by_torch(backend: SDPBackend, causal: bool) -> Function:
    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(backend):
            out: torch.Tensor = scaled_dot_product_attention(q, k, v, is_causal=causal)
        return out

    return call


def operations_of(length: int, causal: bool) -> int:
    """Multiplications and additions of a call: 4 * B * H * N * N * D, half under a causal mask."""
    return 4 * TOKENS * length * WIDTH // (2 if causal else 1)


# v5 takes some shapes only: flash_attention_tl gives it those, and the rest to v4. Its series is
# recorded as flash_attention.
VERSIONS = versions_of("flash_attention")
FLASH_ATTENTION = VERSIONS["flash_attention_tl"]


def study(head_dim: int, causal: bool, dtype: torch.dtype) -> Study:
    def make(length: int) -> tuple[torch.Tensor, ...]:
        shape = (TOKENS // length, WIDTH // head_dim, length, head_dim)
        return tuple(torch.randn(shape, dtype=dtype, device="cuda") for _ in "qkv")

    def ours(version: Function) -> Callable[[int], Function]:
        return lambda length: partial(version, causal=causal)

    def torchs(backend: SDPBackend) -> Callable[[int], Function]:
        return lambda length: by_torch(backend, causal)

    series: Series = {"flash_attention": ours(FLASH_ATTENTION)}
    if head_dim == 128 and dtype == torch.float16:
        # One study shows what each version and each way of torch gains.
        series |= {name: ours(f) for name, f in VERSIONS.items() if f is not FLASH_ATTENTION}
        series["torch, math"] = torchs(SDPBackend.MATH)
        series["torch, efficient"] = torchs(SDPBackend.EFFICIENT_ATTENTION)
    series["torch, flash"] = torchs(SDPBackend.FLASH_ATTENTION)
    series["torch, cuDNN"] = torchs(SDPBackend.CUDNN_ATTENTION)
    masked, rounded = "_causal" * causal, "_bfloat16" * (dtype == torch.bfloat16)
    return Study(
        name=f"flash_attention_{head_dim}{masked}{rounded}",
        x_name="length",
        xs=[2**k for k in range(9, 15)],
        make=make,
        bytes=lambda q, k, v: 2 * q.nbytes + k.nbytes + v.nbytes,  # read once, written once
        operations=lambda q, k, v: operations_of(q.shape[2], causal),
        series=series,
    )


STUDIES = [
    (head_dim, causal, dtype)
    for dtype in (torch.float16, torch.bfloat16)
    for head_dim in (64, 128, 256)
    for causal in (False, True)
]

OPERATION = Operation(
    name="flash_attention",
    ladder=VERSIONS,
    reference=_reference,
    cases=_cases(),
    absolute=5e-3,  # probabilities are rounded to the dtype of v, and their products with v cancel
    studies=[study(*which) for which in STUDIES],
)
