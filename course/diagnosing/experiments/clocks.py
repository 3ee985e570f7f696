"""Two clocks in each program: when it began and ended, and on which multiprocessor it ran."""

import re
from dataclasses import dataclass

import torch

from .ptx import beginning, pointers

RECORD_BYTES = 32
"""What a program writes: its start and its end in nanoseconds, its multiprocessor, and nothing."""
_REGISTERS = """\
	.reg .pred %course_first;
	.reg .b32 %course_a, %course_b;
	.reg .b64 %course_start, %course_end, %course_at, %course_sm;
	mov.u64 %course_start, %globaltimer;
"""
_END = """\
	mov.u64 %course_end, %globaltimer;
	mov.u32 %course_a, %ctaid.z;
	mov.u32 %course_b, %nctaid.y;
	mul.lo.u32 %course_a, %course_a, %course_b;
	mov.u32 %course_b, %ctaid.y;
	add.u32 %course_a, %course_a, %course_b;
	mov.u32 %course_b, %nctaid.x;
	mul.lo.u32 %course_a, %course_a, %course_b;
	mov.u32 %course_b, %ctaid.x;
	add.u32 %course_a, %course_a, %course_b;
	ld.param.b64 %course_at, [{parameter}];
	mad.wide.u32 %course_at, %course_a, 32, %course_at;
	mov.u32 %course_b, %smid;
	cvt.u64.u32 %course_sm, %course_b;
	mov.u32 %course_b, %tid.x;
	setp.eq.u32 %course_first, %course_b, 0;
	@%course_first st.global.v2.b64 [%course_at], {{%course_start, %course_end}};
	@%course_first st.global.b64 [%course_at+16], %course_sm;
	ret;
"""


@dataclass(frozen=True)
class Clocks:
    """What the programs of a launch have recorded."""

    multiprocessors: int
    span_us: float
    """From the start of the first to the end of the last."""
    busy: float
    """The part of that time in which a multiprocessor had a program, on average over all."""
    median_us: float
    """How long a program lasts."""
    longest_us: float

    @property
    def idle(self) -> float:
        return 1 - self.busy


def with_clocks(ptx: str) -> str:
    """The PTX with clocks, which writes a record for each program to the kernel's last parameter.

    Empty for a kernel that ends under a predicate.
    """
    begins, parameters = beginning(ptx), pointers(ptx)
    if re.search(r"^\t@\S+\s+ret;", ptx, re.MULTILINE):
        return ""
    end = _END.format(parameter=parameters[-1])
    body = re.sub(r"^\tret;\n", lambda _: end, ptx[begins:], flags=re.MULTILINE)
    return ptx[:begins] + _REGISTERS + body


def clocks_of(records: torch.Tensor, multiprocessors: int) -> Clocks:
    """What records say. records: int64, programs x 4."""
    start, end, sm = (records[:, column].double() for column in range(3))
    first = start.min()
    span = float((end.max() - first).clamp(min=1))
    lasted = end - start
    busy = 0.0
    for number in sm.unique():
        own = sm == number
        order = start[own].argsort()
        begins, ends = start[own][order], end[own][order].cummax(0).values
        # A gap is what lies between the end of all before and the next one's start.
        gaps = (begins[1:] - ends[:-1]).clamp(min=0).sum()
        busy += float(ends[-1] - begins[0] - gaps)
    return Clocks(
        multiprocessors,
        span / 1e3,
        min(1.0, busy / (span * multiprocessors)),
        float(lasted.median()) / 1e3,
        float(lasted.max()) / 1e3,
    )
