"""Attention as `flash_attention` launches it: on compute capability 9.0 the kernels in Gluon."""

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from torch.nn.attention import SDPBackend

from course.benching.benchmarks import Function, Operation, Series, Study
from course.benching.benchmarks import flash_attention as in_tl
from kernels.attention import flash_attention
from kernels.attention.gluon.plan import flash_attention_hopper
from kernels.attention.gluon.settings import STEPS

LADDERS = ("flash_attention_hopper_128", "flash_attention_hopper_64_causal")
"""The studies that show what each technique gains."""


def _study(head_dim: int, causal: bool, dtype: torch.dtype) -> Study:
    like = in_tl.study(head_dim, causal, dtype)
    name = like.name.replace("flash_attention", "flash_attention_hopper")

    def ours(function: Callable[..., object], **options: object) -> Callable[[int], Function]:
        return lambda length: cast(Function, partial(function, causal=causal, **options))

    series: Series = {
        "flash_attention": ours(flash_attention),
        "flash_attention_tl": ours(in_tl.FLASH_ATTENTION),
    }
    if name in LADDERS:
        series |= {
            step: ours(flash_attention_hopper, settings=settings)
            for step, settings in STEPS.items()
        }
    series["torch, cuDNN"] = lambda length: in_tl.by_torch(SDPBackend.CUDNN_ATTENTION, causal)
    return Study(
        name=name, x_name=like.x_name, xs=like.xs, make=like.make, bytes=like.bytes,
        operations=like.operations, series=series,
    )  # fmt: skip


OPERATION = Operation(
    name="flash_attention_hopper",
    ladder={"flash_attention": cast(Function, flash_attention)},
    reference=in_tl.OPERATION.reference,
    cases=in_tl.OPERATION.cases,
    absolute=in_tl.OPERATION.absolute,
    studies=[
        _study(head_dim, causal, dtype)
        for dtype in (torch.float16, torch.bfloat16)
        for head_dim in (64, 128, 256)
        for causal in (False, True)
    ],
)
