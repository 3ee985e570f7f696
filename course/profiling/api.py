"""profile: every Triton kernel of a program, what there is to gain most first."""

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from course.triton_internals.launches_watched import launches_watched

from .gpu_times import gpu_timed
from .result import Profile
from .seen import Kind, Seen


@contextlib.contextmanager
def profile(
    run: bool = True,
    data: bool = False,
    target: str | None = None,
    on_new: Callable[[Kind], None] = lambda _: None,
) -> Iterator[Profile]:
    """Watch what runs within a `with`: each Triton kernel, how often, and what there is to gain.

        with course.profile() as p:
            train_step(model, batch)
        p               # a table and a tree, in the order of what there is to gain
        p[0].diagnose() # why; also .cost(), .explore(), .replay(), .verify(reference)
        p[0].reproduce("slow.py")  # a file that repeats the launch by itself

    A row is a kernel that one line launches with arguments of the same shapes and types; its first
    launch stands for all. Tensors are not kept, but the integers of small ones. With a GPU each
    row's time is the GPU's own, and what there is to gain is that time without the roof's. Without
    one it is what the kernel takes at best, on an H200.

    run: whether the kernels run; with run=False nothing is computed, and results stay as they were
        allocated.
    data: keep the numbers of each row's tensors too, in the CPU's memory.
    target: a GPU with known peak figures, as `cost` takes it.
    """
    result = Profile(target)
    seen = Seen(data, on_new)
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: result.take([*seen.kinds.values()], timed))
        timed = stack.enter_context(gpu_timed())
        stack.enter_context(_processes_named(result.notes))
        stack.enter_context(launches_watched(seen, run))
        yield result


STARTED = ("os.fork", "os.forkpty", "subprocess.Popen", "os.posix_spawn", "os.exec", "os.spawn")
_listeners: list[Counter[str]] = []
_hooked: list[bool] = []


@contextlib.contextmanager
def _processes_named(notes: list[str]) -> Iterator[None]:
    """Name the processes that a program starts: nobody watches what they launch."""
    started: Counter[str] = Counter()
    if not _hooked:  # a hook stays for ever
        _hooked.append(True)
        sys.addaudithook(_heard)
    own = os.getpid()
    _listeners.append(started)
    try:
        yield
    finally:
        _listeners.remove(started)
        if os.getpid() == own and started:
            named = ", ".join(f"{name} ({n})" for name, n in started.items())
            notes.append(f"The program started other processes, which were not watched: {named}.")


def _heard(event: str, parts: tuple[Any, ...]) -> None:
    if event in STARTED:
        what = f"{event}" if "fork" in event else Path(os.fsdecode(parts[0])).name
        for started in _listeners:
            started[what] += 1
