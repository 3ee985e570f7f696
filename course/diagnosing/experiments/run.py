"""All experiments with one launch: made, assembled side by side, and timed in one run."""

import math
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from course.errors import CourseError
from course.isolate.available import MOST_CHILD_BYTES, cores
from course.lowering.locations import Frame
from course.lowering.result import Lowered
from course.progress_bar import show_until
from course.tracing.launch import PackedLaunch

from .assembly import assemble, assembled, code_of
from .clocks import with_clocks
from .parameter_changes import cures_of
from .ptx_variants import CLOCKS, EMPTY, Variant, variants_of
from .read_ptx import Ptx
from .result import Experiment, Experiments
from .whole import ended_at_once, from_one_place, narrow_divisions, relaxed, reversed_order
from .worker import MOST_ROUNDS, Code, EndedError, Times, timed

MAKING_S = 8
"""How long making variants may take, and compiling with other parameters at the same time."""
SLOWER = 1.05
"""A variant that takes so many times as long as the launch tells nothing of what it lacks."""
SECONDS = 15
"""How long the launches of a run may take."""
FEWEST = 12
"""So many variants are made even of the largest kernel."""
MOST_CLOCKED = 2**22
"""The most programs that write records of their clocks."""
MOST_ENDED = 3
"""So many codes may fault or never end before a run is given up."""
Timer = Callable[[PackedLaunch, list[Code], float, str], Times]


@dataclass(frozen=True)
class Candidate:
    """What is to be timed: the launch itself, or an experiment with it."""

    code: Code
    kind: str = ""
    lines: tuple[Frame, ...] = ()
    """The lines that lack something; none if it holds for all of the kernel."""
    cure: str = ""


def experiments_on(lowered: Lowered, launch: PackedLaunch) -> Experiments:
    """Time a launch without each of its parts, and with other parameters.

    Raises CourseError if the launch itself cannot be timed.
    """
    begun = time.monotonic()
    made = candidates_for(lowered, launch.grid)
    experiments = timed_together(*made, launch, timed_there)
    return replace(experiments, seconds=time.monotonic() - begun)


def timed_together(
    candidates: list[Candidate], dropped: list[str], launch: PackedLaunch, timer: Timer
) -> Experiments:
    """The times of candidates, the first of which is the launch itself.

    dropped: why others could not be used. timer: `worker.timed`, or what stands in for it.
    """
    times, ended = _timed(timer, launch, candidates)
    whole_us = times.us[0]
    if whole_us is None:
        raise CourseError("there was no time for a single launch")
    done, reasons, found = [], [*dropped, *ended], {}
    for candidate, us, same in zip(candidates, times.us, times.same, strict=True):
        found[candidate.kind] = us
        if candidate.kind in ("", CLOCKS, EMPTY):
            continue
        if us is None:
            reasons.append(f"{candidate.cure or candidate.kind}: no time, or no room")
        elif candidate.cure and not same:
            reasons.append(f"{candidate.cure}: results differ")
        elif not candidate.cure and us > SLOWER * whole_us:
            reasons.append(f"{candidate.kind}: takes longer than the launch")
        else:
            done.append(Experiment(candidate.kind, candidate.lines, us, candidate.cure))
    return Experiments(
        whole_us, times.spread, tuple(done), tuple(reasons), times.clocks, found.get(EMPTY)
    )


def candidates_for(lowered: Lowered, grid: tuple[int, ...]) -> tuple[list[Candidate], list[str]]:
    """What is timed, the launch itself first; and why other experiments cannot be used."""
    begun = time.monotonic()
    ptx, before = Ptx(lowered), code_of(assemble(lowered, lowered.ptx))
    side_by_side = max(1, int(cores()))
    room = max(FEWEST, int(MAKING_S / (time.monotonic() - begun) * side_by_side))
    # Those without all of a kind first: where there is no room for all, single lines are left out.
    parts = sorted(variants_of(ptx), key=lambda each: -len(each.lines))
    whole = [
        ended_at_once(ptx), *relaxed(ptx), *narrow_divisions(ptx), *reversed_order(ptx, grid),
        *from_one_place(ptx),
    ]  # fmt: skip
    programs, clusters = math.prod(grid), lowered.metadata["options"].get("num_ctas", 1)
    if programs <= MOST_CLOCKED and clusters == 1 and (clocks := with_clocks(lowered.ptx)):
        whole.append(Variant(CLOCKS, (), clocks, scratch=True))
    variants = [*whole, *parts[:room]]
    with ThreadPoolExecutor(side_by_side) as pool:
        made = [pool.submit(assembled, lowered, before, variant) for variant in variants]
        until = time.monotonic() + MAKING_S
        cures = [*takewhile(lambda _: time.monotonic() < until, cures_of(lowered))]
        label = f"{lowered.kernel}: variants"
        show_until(lambda s: not wait(made, s).not_done, lambda: _number(made), len(made), label)
    candidates, dropped = [Candidate(code_as_is(lowered, lowered.cubin))], []
    dropped += [f"{each.kind}: no time" for each in parts[room:]]
    for variant, future in zip(variants, made, strict=True):
        if isinstance(cubin := future.result(), str):
            dropped.append(f"{variant.kind}: {cubin}")
            continue
        code = replace(
            code_as_is(lowered, cubin),
            clocks=variant.kind == CLOCKS,
            scratch=variant.scratch,
            results=bool(variant.cure),
        )
        candidates.append(Candidate(code, variant.kind, variant.lines, variant.cure))
    for cure in cures:
        code = replace(code_as_is(cure.lowered, cure.lowered.cubin), results=True)
        candidates.append(Candidate(code, cure.kind, cure=cure.change))
    return candidates, dropped


def code_as_is(lowered: Lowered, cubin: bytes) -> Code:
    options = lowered.metadata["options"]
    return Code(cubin, options["num_warps"], options["shared"])


def _number(futures: list[Future[bytes | str]]) -> int:
    return sum(each.done() for each in futures)


def _timed(
    timer: Timer, launch: PackedLaunch, candidates: list[Candidate]
) -> tuple[Times, list[str]]:
    """The times of candidates, without those that ended the GPU's use; and these, with reasons.

    Removes those from `candidates`.
    """
    ended: list[str] = []
    with tempfile.TemporaryDirectory(prefix="course-times-") as folder:
        progress = Path(folder) / "progress"
        while True:
            try:
                return _with_bar(timer, launch, [each.code for each in candidates], progress), ended
            except EndedError as error:
                number, how = error.args
                if number == 0:
                    raise CourseError(f"the launch itself {how}") from error
                ended.append(f"{candidates.pop(number).kind}: {how}")
                if len(ended) > MOST_ENDED:
                    raise CourseError("; ".join(ended)) from error


def _with_bar(timer: Timer, launch: PackedLaunch, codes: list[Code], progress: Path) -> Times:
    progress.write_bytes(b"")
    with ThreadPoolExecutor(1) as aside:
        times = aside.submit(timer, launch, codes, SECONDS, str(progress))
        show_until(
            lambda s: not wait([times], s).not_done,
            lambda: progress.stat().st_size,
            len(codes) + MOST_ROUNDS,
            "experiments timed",
        )
        return times.result()


def timed_there(launch: PackedLaunch, codes: list[Code], seconds: float, progress: str) -> Times:
    """`worker.timed`, with as much memory as the tensors take beside what CUDA does."""
    memory_bytes = MOST_CHILD_BYTES + Path(launch.tensors).stat().st_size
    there = timed.within(kind="launch", timeout_s=timed.timeout_s, memory_bytes=memory_bytes)
    return there(launch, codes, seconds, progress)
