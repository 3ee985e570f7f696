"""Loops whose loads are not under way while earlier values are computed with, and why."""

from collections.abc import Iterator
from dataclasses import replace

from course.gpus.limits import WIDEST_BYTES
from course.lowering.call_sites import CallSite
from course.tracing.records import AccessCounts

from ..evidence import Evidence
from ..loops import Loop
from ..result import LEAST_GAIN, Finding
from .widths import LEAST_COPIED, is_narrow

FEWEST_ROUNDS = 4
"""Iterations below which a pipeline is not worth its beginning and its end."""
DEPTH = 3
"""Triton's own depth of pipelines, to be tried where there is none."""


def unpipelined(evidence: Evidence) -> Iterator[Finding]:
    """Loops that load when the values are wanted."""
    for loop in evidence.loops:
        if _left_over(loop, evidence.loops):
            continue
        rounds = _rounds(evidence, loop)
        if _in_turn(evidence, loop):
            continue
        if not loop.plain or (rounds is not None and rounds < FEWEST_ROUNDS):
            continue
        why, change = _reason(evidence, loop)
        if not why:
            continue
        finding = _finding(evidence, loop, rounds, why, change)
        work = evidence.work
        useless = finding.mended and work and work.us / finding.mended.us < LEAST_GAIN
        if loop.dots or not useless:
            yield finding


def _left_over(loop: Loop, loops: list[Loop]) -> bool:
    """Whether a loop does what unrolling left over: it has the line of one before it."""
    return any(loop.line and other.line == loop.line for other in loops[: loops.index(loop)])


def _in_turn(evidence: Evidence, loop: Loop) -> bool:
    """Whether each load of a loop goes to a place that one of an iteration before it has loaded, as
    in a search or along a chain: none of them can be under way earlier."""

    def behind(call: CallSite, seen: frozenset[CallSite] = frozenset()) -> frozenset[CallSite]:
        for place in evidence.gathers.get((call, "load"), frozenset()) - seen:
            seen |= behind(place, seen | {place})
        return seen

    chained = {call for call in loop.plain if call in behind(call)}
    return bool(chained) and all(chained & (behind(call) | {call}) for call in loop.plain)


def _rounds(evidence: Evidence, loop: Loop) -> float | None:
    """How often a program goes through a loop; None if that was not counted."""
    if evidence.counts is None:
        return None
    times = [access.executions for access in evidence.accesses if access.call in loop.plain]
    return max(times, default=0) / evidence.programs


def _reason(evidence: Evidence, loop: Loop) -> tuple[str, str]:
    """Why a loop is not pipelined, and what to do; empty where another rule names the cause."""
    loads = [access for access in evidence.accesses if access.call in loop.plain]
    if loop.ahead:
        return "", ""  # what matters is pipelined
    if evidence.gluon:
        return (
            ("", "")
            if not loop.dots
            else (
                "Gluon pipelines nothing by itself.",
                "copy ahead into several buffers of shared memory, by async_copy or tma.",
            )
        )
    if loop.kind == "while":
        return (
            "the compiler does not pipeline a while loop.",
            f"write it as `for … in {_range(loop)}`, where the number of iterations is known "
            "before it.",
        )
    if not evidence.target.nvidia:
        return "", ""  # there loads go ahead through registers, and no copy shows it
    if evidence.target.copies == "none":
        return (
            f"{evidence.target.name} cannot copy to shared memory while it computes.",
            "let more programs share a multiprocessor, so that others compute while one waits.",
        )
    if not loop.dots and loop.stages is None:
        larger = _larger_blocks(evidence, loop, loads)
        return (
            "without tl.dot in it the compiler pipelines a loop only if it is told to.",
            f"{larger}`for … in {_range(loop)}`, or more programs with shorter loops.",
        )
    if (stages := evidence.stages_of(loop)) < 2:
        return f"num_stages={stages} asks for none.", f"num_stages={DEPTH} or 4."
    thin = [each for each in loads if 0 < each.bytes_per_thread < LEAST_COPIED]
    if any(is_narrow(evidence, access) for access in thin):
        return "", ""
    if thin:
        return (
            f"a copy to shared memory moves {LEAST_COPIED} bytes of a thread at least, and these "
            f"loads are {thin[0].bytes_per_thread} bytes wide.",
            "let the last index of the block go along the axis whose stride is 1.",
        )
    return (
        "the compiler does not say why: what is loaded may depend on another load of the same "
        f"iteration{', or be changed before tl.dot takes it' if loop.dots else ''}.",
        f"{'give tl.dot what tl.load returns, and ' if loop.dots else ''}compute addresses from "
        "the loop's counter alone.",
    )


def _range(loop: Loop) -> str:
    """The range that lets a loop be pipelined."""
    return "range(…)" if loop.dots else f"tl.range(…, num_stages={DEPTH})"


def _larger_blocks(evidence: Evidence, loop: Loop, loads: list[AccessCounts]) -> str:
    """The beginning of a change to try where a loop goes from block to block, and these are too
    small for what a thread could load."""
    blocks = [access for access in loads if access.block == loop.step]
    shares = [access.block * access.itemsize / evidence.threads for access in blocks]
    if not shares or max(shares) >= WIDEST_BYTES:
        return ""
    return (
        f"larger blocks, for fewer iterations: a thread loads {max(shares):g} bytes in each, and "
        f"could load {WIDEST_BYTES} by one instruction; or "
    )


def _finding(
    evidence: Evidence, loop: Loop, rounds: float | None, why: str, change: str
) -> Finding:
    work = evidence.work
    mended = None
    if work is not None and rounds is not None:
        mended = replace(work, rounds=max(1, work.rounds - rounds * (1 - 1 / (DEPTH - 1))))
    times = "" if rounds is None else f", {rounds:,.0f} times in each program"
    number = len(loop.plain)
    line, text = (loop.line.number, loop.line.text.strip()) if loop.line else (0, "")
    if not line and (loads := [each for each in evidence.accesses if each.call in loop.plain]):
        line, text = loads[0].line, evidence.text(loads[0].file, loads[0].line)
    return Finding(
        cause="pipelining",
        what=(
            f"a loop waits for its {number} load{'s' if number > 1 else ''}{times}: none is under "
            "way while it computes"
        ),
        why=why,
        change=change,
        mended=mended,
        line=line,
        text=text,
    )
