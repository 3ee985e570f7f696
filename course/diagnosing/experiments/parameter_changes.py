"""Changes of a parameter that may make a kernel faster, each to be tried."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from course.lowering.api import Lowered, LowerError

from ..what_if import with_options

WARPS = (1, 2, 4, 8, 16)
STAGES = (2, 3, 4)
MOST_REGISTERS = 512
"""Registers that a thread may want for fewer warps to be tried: it has half as many. What it spills
counts too: to compile what spills more can take minutes."""
LONGEST_S = 8
"""How long the compiler may compute for one change."""
_FLOAT64 = re.compile(r"(?<=\dx)f64\b|(?<![\w<])f64\b")


@dataclass(frozen=True)
class Cure:
    """A kernel compiled with one change, whose results should stay."""

    kind: str
    change: str
    lowered: Lowered


def cures_of(lowered: Lowered) -> Iterator[Cure]:
    """The kernel with float32 for float64, and with other numbers of warps and stages."""
    ttir = lowered.texts.get("ttir", "")
    if _FLOAT64.search(ttir) and "x!tt.ptr<f64>" not in ttir:
        with contextlib.suppress(LowerError):
            yield Cure("float32", "float32", lowered.replace(ttir=in_float32(ttir)))
    options, resources = lowered.launch_options, lowered.resources
    warps, stages = options["num_warps"], options.get("num_stages", 1)
    wanted = resources.registers + resources.spill_bytes // 4
    for number in WARPS:
        fit = number > warps or wanted * warps <= number * MOST_REGISTERS
        if number != warps and number <= resources.most_warps and fit:
            yield from _compiled(lowered, num_warps=number)
    pipelined = "cp.async" in lowered.ptx or " tt.dot " in ttir
    for number in STAGES if pipelined else ():
        if number != stages:
            yield from _compiled(lowered, num_stages=number)


def _compiled(lowered: Lowered, **options: int) -> Iterator[Cure]:
    ((name, number),) = options.items()
    other = with_options(lowered, LONGEST_S, **options)
    if other and other.resources.fits and other.cubin != lowered.cubin:
        yield Cure(name, f"{name}={number}", other)


def in_float32(ttir: str) -> str:
    """A TTIR that computes in float32 where it did in float64. What it loads keeps its type."""
    narrowed = _FLOAT64.sub("f32", ttir)
    # What would turn float32 into itself gives what it is given.
    same = r"arith\.(?:extf|truncf) (%\w+) : (\S+) to \2(?=\s)"
    narrowed = re.sub(same, r"arith.bitcast \1 : \2 to \2", narrowed)
    number = r"(?m)^(\s*)(%\w+) = (tt\.load .*ptr<f64>.*)$"
    return re.sub(number, r"\1\2_wide = \3\n\1\2 = arith.truncf \2_wide : f64 to f32", narrowed)
