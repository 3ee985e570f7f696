"""Two clocks in each program: when it began and ended, and on which multiprocessor it ran."""

import re
from dataclasses import dataclass

import torch

from .read_ptx import PROGRAM_NUMBER, PROGRAM_REGISTERS, begun_with, pointers

RECORD_BYTES = 32
"""What a program writes: its start and its end in nanoseconds, its multiprocessor, and nothing."""
_START = f"""\
{PROGRAM_REGISTERS}	.reg .pred %course_first;
	.reg .b64 %course_start, %course_end, %course_at, %course_sm;
	mov.u64 %course_start, %globaltimer;
"""
_END = f"""\
	mov.u64 %course_end, %globaltimer;
{PROGRAM_NUMBER}	ld.param.b64 %course_at, [PARAMETER];
	mad.wide.u32 %course_at, %course_program, {RECORD_BYTES}, %course_at;
	mov.u32 %course_index, %smid;
	cvt.u64.u32 %course_sm, %course_index;
	mov.u32 %course_index, %tid.x;
	setp.eq.u32 %course_first, %course_index, 0;
	@%course_first st.global.v2.b64 [%course_at], {{%course_start, %course_end}};
	@%course_first st.global.b64 [%course_at+16], %course_sm;
	ret;
"""


@dataclass(frozen=True)
class Clocks:
    """What the programs of a launch have recorded."""

    span_us: float
    """From the start of the first to the end of the last."""
    busy: float
    """The part of that time in which a multiprocessor had a program, on average over all."""


def with_clocks(ptx: str) -> str:
    """The PTX with clocks, which writes a record for each program to the kernel's last parameter.

    Empty for a kernel that ends under a predicate.
    """
    if re.search(r"^\t@\S+\s+ret;", ptx, re.MULTILINE):
        return ""
    end = _END.replace("PARAMETER", pointers(ptx)[-1])
    ended = re.sub(r"^\tret;\n", lambda _: end, ptx, flags=re.MULTILINE)
    return begun_with(ended, _START)


def clocks_of(records: torch.Tensor, multiprocessors: int) -> Clocks:
    """What records say. records: int64, programs x 4."""
    start, end, sm = (records[:, column].double() for column in range(3))
    span = float((end.max() - start.min()).clamp(min=1))
    busy = 0.0
    for number in sm.unique():
        own = sm == number
        order = start[own].argsort()
        begins, ends = start[own][order], end[own][order].cummax(0).values
        # A gap is what lies between the end of all before and the next one's start.
        gaps = (begins[1:] - ends[:-1]).clamp(min=0).sum()
        busy += float(ends[-1] - begins[0] - gaps)
    return Clocks(span / 1e3, min(1.0, busy / (span * multiprocessors)))
