"""All experiments with one launch: made, assembled side by side, and timed in one run."""

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from course.errors import CourseError
from course.isolate.limits import MOST_CHILD_BYTES, cores
from course.lowering.result import Lowered
from course.progress_bar import show_until
from course.tracing.launch import PackedLaunch

from ..machine_code import MachineCode
from .assembly import assemble, assembled, code_of
from .clocks import with_clocks
from .cures import cures_of
from .ptx import Ptx
from .result import Experiment, Experiments
from .variants import Variant, ended_at_once, relaxed, variants_of
from .worker import MOST_ROUNDS, Code, EndedError, Times, timed

SECONDS = 12
"""How long the launches of a run may take."""
MOST_ENDED = 3
"""Codes that may fault or not end before a run is given up."""
Timer = Callable[[PackedLaunch, list[Code], float, str], Times]


@dataclass(frozen=True)
class Candidate:
    """What is to be timed: the launch itself, or an experiment with it."""

    code: Code
    kind: str = ""
    variant: Variant | None = None
    cure: str = ""


def experiments_on(
    lowered: Lowered, launch: PackedLaunch, timer: Timer | None = None
) -> Experiments:
    """Time a launch without each of its parts, and with other parameters.

    timer: `worker.timed`, or what stands in for it.
    Raises CourseError if the launch itself cannot be timed.
    """
    begun = time.monotonic()
    candidates, dropped = candidates_for(lowered)
    times, ended = _timed(timer or _timed_there, launch, candidates)
    done, found = [], {}
    for candidate, us, same in zip(candidates, times.us, times.same, strict=True):
        lines = candidate.variant.lines if candidate.variant else ()
        found[candidate.kind] = us
        if us is None or candidate.kind in ("", "clocks", "empty"):
            continue
        if candidate.cure and not same:
            dropped.append(f"{candidate.cure}: results differ")
            continue
        done.append(Experiment(candidate.kind, lines, us, candidate.cure))
    assert times.us[0] is not None
    return Experiments(
        times.us[0],
        times.spread,
        tuple(done),
        tuple(dropped + ended),
        times.clocks,
        found.get("empty"),
        time.monotonic() - begun,
    )


def candidates_for(lowered: Lowered) -> tuple[list[Candidate], list[str]]:
    """What is timed, the launch itself first; and why other experiments would say nothing."""
    ptx, before = Ptx.of(lowered), code_of(assemble(lowered, lowered.ptx))
    variants = [ended_at_once(ptx), *relaxed(ptx), *variants_of(ptx)]
    if clocks := with_clocks(lowered.ptx):
        variants.insert(0, Variant("clocks", (), clocks, clocks=True))
    with ThreadPoolExecutor(max(1, int(cores()))) as pool:
        made = [pool.submit(_made, lowered, before, variant) for variant in variants]
        cures = [*cures_of(lowered)]
        label = f"{lowered.kernel}: variants"
        show_until(lambda s: not wait(made, s).not_done, lambda: _number(made), len(made), label)
    candidates, dropped = [Candidate(_code(lowered, lowered.cubin))], []
    for variant, future in zip(variants, made, strict=True):
        if isinstance(cubin := future.result(), str):
            dropped.append(f"{variant.kind}: {cubin}")
            continue
        code = replace(_code(lowered, cubin), clocks=variant.clocks, results=bool(variant.cure))
        candidates.append(Candidate(code, variant.kind, variant, variant.cure))
    for cure in cures:
        code = replace(_code(cure.lowered, cure.lowered.cubin), results=True)
        candidates.append(Candidate(code, cure.kind, cure=cure.change))
    return candidates, dropped


def _made(lowered: Lowered, before: MachineCode, variant: Variant) -> bytes | str:
    """The machine code of a variant, or why it says nothing."""
    if variant.kind in ("clocks", "empty") or variant.cure:
        return assemble(lowered, variant.ptx)
    return assembled(lowered, before, variant)


def _code(lowered: Lowered, cubin: bytes) -> Code:
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


def _timed_there(launch: PackedLaunch, codes: list[Code], seconds: float, progress: str) -> Times:
    """`worker.timed`, with as much memory as the tensors take beside what CUDA does."""
    memory_bytes = MOST_CHILD_BYTES + Path(launch.tensors).stat().st_size
    there = timed.within(kind="launch", timeout_s=timed.timeout_s, memory_bytes=memory_bytes)
    return there(launch, codes, seconds, progress)
