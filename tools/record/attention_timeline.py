"""Proton's intra-kernel records of attention for compute capability 9.0.

The kernels are compiled with Proton's scopes around what a warp does, and must give the same bits
as without. A scope begins and ends with a read of the multiprocessor's clock by each warp. It
stands around one operation and no other scope, so a warp is in one state at a time. What lies
between two scopes has no name: the arithmetic of a loop, for example, and the rounding of P, which
the compiler moves out of any scope, next to the product that needs it.

Each launch is traced in a process of its own. Proton's trace has the spans of all programs; those
of a few on one multiprocessor are kept. It gives cycles as if they were nanoseconds, and counts
them from the first clock of each program.
"""

import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import torch

from course.benching.api import require_gpu
from course.benching.attention_timeline import (
    WARP_GROUP,
    AttentionTimeline,
    TracedLaunch,
    TracedProgram,
    Warp,
)
from course.benching.outdated import TIMED
from course.benching.source_hash import code_hash
from course.errors import CourseError
from course.gpus.recorded import this_machine
from course.gpus.timing import times_ms
from course.isolate.commands import run_command
from course.triton_internals.profile_buffer import one_profile_buffer
from course.triton_internals.profile_scopes import scoped_calls
from kernels.attention.gluon import plan as launching
from kernels.attention.gluon.settings import STEPS, HopperSettings
from kernels.attention.inputs import prepare

MOST_S = 100
LAUNCH = "launch.json"
STATES = {
    "wait_full": "wait for a tile",
    "wait_empty": "wait for a slot",
    "wait_turn": "wait for its turn",
    "copy": "start a copy",
    "warpgroup_mma": "start a product",
    "warpgroup_mma_wait": "wait for a product",
    "softmax": "softmax",
    "rescale": "rescale",
    "row_sums": "store the output",
    "store": "store the output",
    "async_store": "store the output",
    "store_wait": "store the output",
}
"""Function or method -> what a warp does in a call of it."""
NAMES = tuple(dict.fromkeys(STATES.values()))

RECORDS_PER_WARP = 1024
"""A power of two. The first of a warp's records are lost where it makes more than that."""
RECORD_BYTES = 8
"""A span is two records."""


@dataclass(frozen=True)
class Case:
    """A launch to trace."""

    head_dim: int
    length: int
    heads: int
    programs: int
    """How many programs of one multiprocessor are kept, the first ones."""


CASES = {
    "one consumer": Case(128, 1024, 33, 1),
    "two consumers": Case(128, 1024, 33, 1),
    "scores a tile ahead": Case(128, 1024, 33, 2),
    "consumers take turns": Case(128, 1024, 33, 2),
    "the next Q early": Case(128, 1024, 33, 1),
    "small programs": Case(64, 512, 66, 4),
}
"""Step of kernels/attention/gluon/settings.py -> what is traced of it. 33 * 1,024 queries in tiles
of 128 are 264 tiles, two for each of an H200's 132 multiprocessors."""


class Args(msgspec.Struct):
    """What Proton says of a span's program, in nanoseconds of the GPU's clock."""

    begins: int = msgspec.field(name="Init Time (ns)")
    ends: int = msgspec.field(name="Post Final Time (ns)")


class Event(msgspec.Struct):
    """A span of Proton's trace. `ts` and `dur` are thousands of cycles."""

    name: str
    pid: str
    tid: str
    ts: float
    dur: float
    args: Args


class Trace(msgspec.Struct):
    """Proton's trace, in the format of Chrome's."""

    events: list[Event] = msgspec.field(name="traceEvents")


def measure() -> AttentionTimeline:
    """Trace all launches, each in a process of its own; one that fails is said and left out.

    Raises CourseError without a GPU that the kernels run on, and where no launch could be traced.
    """
    require_gpu()
    if not launching.available(torch.empty(0, device="cuda")):
        raise CourseError("A timeline of attention needs a GPU of compute capability 9.0.")
    launches = {name: launch for name in CASES if (launch := _traced(name)) is not None}
    if not launches:
        raise CourseError("No launch of attention could be traced.")
    return AttentionTimeline(
        machine=this_machine(),
        source_hash=code_hash(TIMED["attention_timeline"]),
        states=NAMES,
        launches=launches,
    )


def _traced(name: str) -> TracedLaunch | None:
    """Trace a launch in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="course-proton-") as folder:
        # Triton's usual cache would give a kernel that was compiled with other scopes.
        program = ["env", f"TRITON_CACHE_DIR={folder}/cache", sys.executable, "-m", __name__]
        ended = run_command([*program, name, folder], MOST_S)
        if ended.how != "finished":
            sentence = ended.sentence(f"The trace of {name!r}")
            print(f"{sentence}. {ended.stdout} {ended.stderr[-2000:]}")
            return None
        return msgspec.json.decode(Path(folder, LAUNCH).read_text(), type=TracedLaunch)


def _trace(name: str, folder: Path) -> None:
    """Trace one launch, and write it to folder/LAUNCH."""
    from triton import profiler

    case, settings = CASES[name], STEPS[name]
    shape = (1, case.heads, case.length, case.head_dim)
    generator = torch.Generator("cuda").manual_seed(0)
    q, k, v = (
        torch.randn(shape, device="cuda", dtype=torch.float16, generator=generator) for _ in "qkv"
    )

    def compiled_plan() -> launching.Plan:
        launch = prepare(None, q, k, v, False, None, "bhmd")
        plan = launching.Plan(launch, settings)
        arguments = plan.arguments(q, k, v, launch.out, launch.lse)
        plan.compiled = plan.kernel.warmup(*arguments, num_warps=4, grid=plan.grid)
        return plan

    plain = compiled_plan()
    session = profiler.start(
        str(folder / "trace"), data="trace", backend="instrumentation", mode=mode(settings)
    )
    with scoped_calls(STATES):
        scoped = compiled_plan()
    for _ in range(2):  # the second finds the kernel loaded, and K and V in the L2 cache
        results = scoped(q, k, v)
    torch.cuda.synchronize()
    profiler.finalize(session)
    expected = plain(q, k, v)
    plain_us = median(times_ms(plain, (q, k, v))) * 1e3
    with one_profile_buffer():
        scoped_us = median(times_ms(scoped, (q, k, v))) * 1e3
    if not all(map(torch.equal, results, expected)):
        raise CourseError(f"The scopes have changed what {name!r} computes.")
    (written,) = folder.glob("trace*")
    trace = msgspec.json.decode(written.read_bytes(), type=Trace)
    programs = programs_of(trace.events, case.programs, settings.consumers)
    launch = TracedLaunch(case.head_dim, case.length, case.heads, plain_us, scoped_us, programs)
    (folder / LAUNCH).write_bytes(msgspec.json.encode(launch))


def mode(settings: HopperSettings) -> Any:
    """How Proton records: the lower 32 bits of the clock, by each warp, into the GPU's memory."""
    from triton.profiler.mode import Default

    # The producer's warp group is filled up to four warps.
    groups = settings.consumers + 1 if settings.consumers else 1
    return Default(
        metric_type="cycle",
        granularity="warp",
        buffer_type="global",
        buffer_strategy="circular",
        buffer_size=groups * WARP_GROUP * RECORDS_PER_WARP * RECORD_BYTES,
        optimizations="clock32",
    )


def programs_of(events: Iterable[Event], most: int, consumers: int) -> tuple[TracedProgram, ...]:
    """The first `most` programs of the last launch, of the first multiprocessor that has so many.

    consumers: warp groups that compute beside a producer; 0 where one does all.
    Raises CourseError where no multiprocessor has run so many.
    """
    launches: dict[int, dict[int, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for event in events:
        launches[_number("CTA", event.pid)][event.args.begins].append(event)
    cores: dict[int, list[tuple[int, int, list[Event]]]] = defaultdict(list)
    for number, by_begin in launches.items():
        begins, those = max(by_begin.items(), key=lambda launch: launch[0])  # the last launch
        cores[_number("Core", those[0].pid)].append((begins, number, those))
    full = [core for core, programs in cores.items() if len(programs) >= most]
    if not full:
        raise CourseError(f"No multiprocessor has run {most} programs.")
    kept = sorted(cores[min(full)], key=lambda program: program[:2])[:most]
    first, _, _ = kept[0]
    return tuple(
        TracedProgram(
            number,
            begins - first,
            max(each.args.ends for each in those) - begins,
            _warps(those, consumers),
        )
        for begins, number, those in kept
    )


def _warps(events: list[Event], consumers: int) -> tuple[Warp, ...]:
    """The warps of one program, with cycles in place of Proton's thousands."""
    first = min(event.ts for event in events)
    by_warp: dict[int, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event.ts):
        by_warp[_number("warp ", event.tid)].append(event)
    warps = []
    for number, spans in sorted(by_warp.items()):
        steps, now = [], 0
        for span in spans:
            start, cycles = round((span.ts - first) * 1000), round(span.dur * 1000)
            steps.append((NAMES.index(span.name), start - now, cycles))
            now = start + cycles
        warps.append(Warp(number, _role(number, spans, consumers), tuple(steps)))
    return tuple(warps)


def _role(number: int, events: list[Event], consumers: int) -> str:
    if consumers == 0:
        return "warp group"
    if not any(event.name == STATES["softmax"] for event in events):
        return "producer"
    return "consumer" if consumers == 1 else f"consumer {number // WARP_GROUP}"


def _number(word: str, text: str) -> int:
    match = re.search(rf"{word}(\d+)", text)
    assert match is not None, text
    return int(match[1])


if __name__ == "__main__":
    _trace(sys.argv[1], Path(sys.argv[2]))
