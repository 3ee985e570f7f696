"""Attention as `flash_attention` launches it: on compute capability 9.0 the kernels in Gluon."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from torch.nn.attention import SDPBackend

from course.benching.benchmarks import Function, Series, Study
from course.benching.benchmarks import flash_attention as in_tl
from course.benching.series import versions_of
from kernels.attention.gluon.plan import flash_attention_hopper
from kernels.attention.gluon.settings import STEPS

VERSIONS = versions_of("flash_attention_hopper")
LADDERS = ("flash_attention_hopper_128", "flash_attention_hopper_64_causal")
"""The studies that show what each technique gains."""


def _study(head_dim: int, causal: bool, dtype: torch.dtype) -> Study:
    like = in_tl.study(head_dim, causal, dtype)
    name = like.name.replace("flash_attention", "flash_attention_hopper")

    def ours(function: Callable[..., object], **options: object) -> Callable[[int], Function]:
        return lambda length: cast(Function, partial(function, causal=causal, **options))

    series: Series = {
        "flash_attention": ours(VERSIONS["flash_attention_forward"]),
        "flash_attention_tl": ours(in_tl.FLASH_ATTENTION),
    }
    if name in LADDERS:
        series |= {
            step: ours(flash_attention_hopper, settings=settings)
            for step, settings in STEPS.items()
        }
    series["torch, cuDNN"] = lambda length: in_tl.by_torch(SDPBackend.CUDNN_ATTENTION, causal)
    return replace(like, name=name, series=series)


OPERATION = replace(
    in_tl.OPERATION,
    name="flash_attention_hopper",
    ladder=VERSIONS,
    studies=[_study(*which) for which in in_tl.STUDIES],
)
