"""Attention as `flash_attention` launches it: on compute capability 9.0 the kernels in Gluon."""

from typing import cast

from course.benching.benchmarks import Function, Operation
from course.benching.benchmarks import flash_attention as in_tl
from kernels.flash_attention import flash_attention

OPERATION = Operation(
    name="flash_attention_hopper",
    ladder={"flash_attention": cast(Function, flash_attention)},
    reference=in_tl.OPERATION.reference,
    cases=in_tl.OPERATION.cases,
    absolute=in_tl.OPERATION.absolute,
    studies=(),
)
