"""Loops whose loads are not under way while earlier values are computed with, and why."""

from collections.abc import Iterator
from dataclasses import replace

from course.gpus.limits import WIDEST_BYTES
from course.lowering.call_sites import CallSite
from course.tracing.records import AccessCounts

from ..evidence import Evidence
from ..loops import Loop
from ..result import Finding
from .widths import LEAST_COPIED, is_narrow

FEWEST_ROUNDS = 4
"""Iterations below which a pipeline is not worth its beginning and its end."""
DEPTH = 3
"""Triton's own depth of pipelines, to be tried in a loop without one."""


def unpipelined(evidence: Evidence) -> Iterator[Finding]:
    """Loops that load when the values are wanted."""
    for loop in evidence.loops:
        rounds = _rounds(evidence, loop)
        if not loop.plain or _left_over(loop, evidence.loops) or _in_turn(evidence, loop):
            continue
        if rounds is not None and rounds < FEWEST_ROUNDS:
            continue
        if reason := _reason(evidence, loop):
            yield _finding(evidence, loop, rounds, reason)


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
    times = [access.executions for access in _loads(evidence, loop)]
    return max(times, default=0) / evidence.programs


def _reason(evidence: Evidence, loop: Loop) -> tuple[str, str] | None:
    """Why a loop is not pipelined, and what to do; None where another rule names the cause."""
    target = evidence.target
    if loop.ahead:
        return None  # what matters is pipelined
    if evidence.gluon:
        return IN_GLUON if loop.dots else None
    if loop.kind == "while":
        return (
            "the compiler does not pipeline a while loop.",
            f"write it as `for … in {_range(loop)}`, where the number of iterations is known "
            "before it.",
        )
    if not target.nvidia:
        return None  # there loads go ahead through registers, and no copy shows it
    if target.copies == "none":
        return (
            f"{target.name} cannot copy to shared memory while it computes.",
            "let more programs share a multiprocessor, so that others compute while one waits.",
        )
    if not loop.dots and loop.stages is None:
        return (
            "without tl.dot in it the compiler pipelines a loop only if it is told to.",
            f"{_larger_blocks(evidence, loop)}`for … in {_range(loop)}`, or more programs with "
            "shorter loops.",
        )
    if (stages := evidence.stages_of(loop)) < 2:
        return f"num_stages={stages} asks for none.", f"num_stages={DEPTH} or 4."
    thin = [each for each in _loads(evidence, loop) if 0 < each.bytes_per_thread < LEAST_COPIED]
    if any(is_narrow(evidence, access) for access in thin):
        return None
    if thin:
        return (
            f"a copy to shared memory moves {LEAST_COPIED} bytes of a thread at least, and these "
            f"loads are {thin[0].bytes_per_thread} bytes wide.",
            "let the last index of the block go along the axis whose stride is 1.",
        )
    return UNTOLD_OF_DOT if loop.dots else UNTOLD


IN_GLUON = (
    "Gluon pipelines nothing by itself.",
    "copy ahead into several buffers of shared memory, by async_copy or tma.",
)
"""Why a loop is not pipelined, and what to do."""
UNTOLD = (
    "the compiler does not say why: what is loaded may depend on another load of the same "
    "iteration.",
    "compute addresses from the loop's counter alone.",
)
UNTOLD_OF_DOT = (
    "the compiler does not say why: what is loaded may depend on another load of the same "
    "iteration, or be changed before tl.dot takes it.",
    "give tl.dot what tl.load returns, and compute addresses from the loop's counter alone.",
)


def _range(loop: Loop) -> str:
    """The range that lets a loop be pipelined."""
    return "range(…)" if loop.dots else f"tl.range(…, num_stages={DEPTH})"


def _loads(evidence: Evidence, loop: Loop) -> list[AccessCounts]:
    """The counts of a loop's waiting loads; an empty list if nothing was counted."""
    return [access for access in evidence.accesses if access.call in loop.plain]


def _larger_blocks(evidence: Evidence, loop: Loop) -> str:
    """The beginning of a change to try where a loop goes from block to block, and these are too
    small for what a thread could load."""
    blocks = [each for each in _loads(evidence, loop) if 1 < each.block == loop.step]
    share = max((each.block * each.itemsize / evidence.threads for each in blocks), default=0)
    if not 0 < share < WIDEST_BYTES:
        return ""
    return (
        f"larger blocks, for fewer iterations: a thread loads {share:g} bytes in each, and could "
        f"load {WIDEST_BYTES} by one instruction; or "
    )


def _finding(
    evidence: Evidence, loop: Loop, rounds: float | None, reason: tuple[str, str]
) -> Finding:
    work, mended = evidence.work, None
    if work is not None and rounds is not None:
        mended = replace(work, rounds=max(1, work.rounds - rounds * (1 - 1 / (DEPTH - 1))))
    times = "" if rounds is None else f", {rounds:,.0f} times in each program"
    number = len(loop.plain)
    loads = [evidence.place(access) for access in _loads(evidence, loop)]
    return Finding(
        "pipelining",
        f"a loop waits for its {number} load{'s' if number > 1 else ''}{times}: none is under way "
        "while it computes",
        *reason,
        mended=mended,
        place=next(filter(None, [loop.line, *loads]), None),
        always=loop.dots > 0,
    )
