"""profile: every Triton kernel of a program, what there is to gain most first."""

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from course import MODE
from course.gpus.peaks import gpu_of
from course.triton_internals.launches_watched import launches_watched

from .gpu_times import gpu_timed
from .result import Profile
from .row import Row
from .seen import Seen

STARTED = ("os.fork", "os.forkpty", "subprocess.Popen", "os.posix_spawn", "os.exec", "os.spawn")
"""What Python's audit hooks call the start of a process."""
_listeners: list[Counter[str]] = []
_hooks: list[Any] = []


@contextlib.contextmanager
def profile(
    run: bool = True,
    data: bool = False,
    target: str | None = None,
    on_new: Callable[[Row], None] = lambda _: None,
) -> Iterator[Profile]:
    """Watch what runs within a `with`: each Triton kernel, how often, and what there is to gain.

        with course.profile() as p:
            train_step(model, batch)
        p                          # a table and a tree, what there is to gain most first
        p[0].diagnose()            # why; also cost, explore, replay and verify
        p[0].reproduce("slow.py")  # a file that repeats the launch by itself

    A row is a kernel that one line launches with arguments of the same shapes and types; its first
    launch stands for all. Tensors are not kept, but the integers of small ones. With a GPU each
    row's time is the GPU's own, and what there is to gain is that time without the roof's. Without
    one it is what the kernel takes at best, on an H200.

    On a GPU it takes the CPU 4 us more for any kernel, for CUPTI, and some 12 more for a launch of
    Triton's. A program that keeps the GPU busy is not slowed by that; one that waits for its
    launches is.

    run: whether the kernels run; with run=False nothing is computed, and results stay as they were
        allocated.
    data: keep the numbers of each row's tensors too, in the CPU's memory.
    target: a GPU with known peak figures, as `cost` takes it; CourseError for another.
    on_new: is told of each row before its first launch runs.
    """
    if target is not None:
        gpu_of(target)  # before the program has run, which may take long
    result, seen = Profile(), Seen(data, target, on_new, thinly=MODE.gpu)
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: result.take([*seen.rows.values()], timed, seen.lost))
        timed = stack.enter_context(gpu_timed())
        stack.enter_context(_processes_named(result.notes))
        stack.enter_context(launches_watched(seen, run))
        yield result


@contextlib.contextmanager
def _processes_named(notes: list[str]) -> Iterator[None]:
    """Name the processes that a program starts: nobody watches what they launch."""
    if not _hooks:  # it stays for ever
        _hooks.append(_heard)
        sys.addaudithook(_heard)
    started: Counter[str] = Counter()
    _listeners.append(started)
    try:
        yield
    finally:
        _listeners.remove(started)
        if started:
            named = ", ".join(f"{name} ({n})" for name, n in started.items())
            notes.append(f"The program started other processes, which were not watched: {named}.")


def _heard(event: str, given: tuple[Any, ...]) -> None:
    if event in STARTED:
        what = Path(os.fsdecode(given[0])).name if given else event
        for started in _listeners:
            started[what] += 1
