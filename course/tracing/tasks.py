"""What runs in the child: a launch, watched."""

import base64
import inspect
import signal
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

import numpy as np
import torch

from course.compiling.arguments import make
from course.compiling.private.errors import interpreter_words
from course.compiling.private.interpreter import Access, Grid, Launch, Program, bind_late, interpreter_watched
from course.compiling.private.kernels import inner_kernel
from course.compiling.private.operations import operations_counted
from course.compiling.reference import Reference, kernel_at, listing_of
from course.compiling.requests import Requests

from .accesses import name_of
from .panels import Panel, packed
from .sites import Listing
from .steps import Recorded, Recorder
from .survey import Survey

MOST_PROGRAMS = 1024
CLUSTERS = 16
"""Of a larger grid a sample is run: so many clusters of neighbours, evenly spread, with the first program and the last."""
Json = dict[str, Any]


class Stopped(BaseException):
    """The time is over. No kernel's own `except` catches it."""


class Watch:
    """An observer that surveys every launch, and records some programs step by step.

    record: the programs to record, each with the number of its launch, from 0.
    """

    def __init__(self, listing: Listing, requests: Sequence[Requests] = (), record: Iterable[tuple[int, Program]] = ()) -> None:
        self.listing, self.record = listing, set(record)
        self._requests = requests
        self.surveys: list[Survey] = []
        self.recorded: dict[Program, Recorded] = {}
        self._recorder: Recorder | None = None

    @property
    def last(self) -> Survey:
        return self.surveys[-1]

    def launch(self, launch: Launch) -> None:
        self.stop()
        self.surveys.append(Survey(self.listing, self._requests))
        self.last.launch(launch)

    def program(self, program: Program) -> None:
        self.stop()
        self.last.program(program)
        if (len(self.surveys) - 1, program) in self.record:
            self._recorder = Recorder(program, self.listing, self.last.arguments)
            self.recorded[program] = self._recorder.recorded
            self._recorder.start()

    def access(self, access: Access) -> None:
        if self._recorder:
            self._recorder.access(access)
        self.last.access(access)

    def stop(self, error: str = "") -> None:
        if self._recorder:
            self._recorder.stop(error)
        self._recorder = None

    def sample(self, grid: Grid) -> list[Program]:
        return sample(grid, {program for launch, program in self.record if launch == len(self.surveys)})


@dataclass(frozen=True)
class Failure:
    """Why a launch did not come to its end."""

    program: Program
    text: str
    line: int
    stopped: bool
    """By the clock, and not by an error."""

    def __str__(self) -> str:
        return self.text


def sample(grid: Grid, also: set[Program]) -> list[Program]:
    """All programs of a grid in the order in which a GPU starts them, the first axis fastest; of a large one a sample."""
    total = grid[0] * grid[1] * grid[2]
    numbers: Iterable[int] = range(total)
    if total > MOST_PROGRAMS:
        size = MOST_PROGRAMS // CLUSTERS
        starts = [i * (total - size) // (CLUSTERS - 1) for i in range(CLUSTERS)]
        asked = {x + grid[0] * (y + grid[1] * z) for x, y, z in also}
        numbers = sorted(asked.union(*(range(start, start + size) for start in starts)))
    return [(n % grid[0], n // grid[0] % grid[1], n // (grid[0] * grid[1])) for n in numbers]


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise Stopped after so long, in the midst of whatever Python runs."""

    def stop(*_: Any) -> None:
        raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def watched(watch: Watch, launching: Callable[[], Any], seconds: float) -> Failure | None:
    """Launch under watch; why it did not come to its end, if it did not."""
    try:
        # The interpreter computes with NumPy, which warns where values overflow on purpose.
        with limited(seconds), np.errstate(all="ignore"), interpreter_watched(watch, watch.sample):
            launching()
    except Stopped as stopped:
        text = f"Program {name_of(_running(watch))} was stopped: the launch had run for {seconds:g} s."
        failure = Failure(_running(watch), text, _line(watch.listing, stopped.__traceback__), True)
    except Exception as error:
        while isinstance(error.__cause__, Exception):  # the interpreter raises its own from what a kernel raised
            error = error.__cause__
        if not watch.surveys or not watch.last.programs:
            raise  # no kernel has begun
        words = interpreter_words(error) or str(error).strip().split("\n")[0]
        kind = "" if hasattr(error, "problem") else f"{type(error).__name__}: "
        failure = Failure(_running(watch), kind + words, _line(watch.listing, error.__traceback__), False)
    else:
        watch.stop()
        return None
    watch.stop(failure.text)
    return failure


def _running(watch: Watch) -> Program:
    return watch.last.programs[-1] if watch.surveys and watch.last.programs else (0, 0, 0)


def _line(listing: Listing, found: TracebackType | None) -> int:
    """The innermost line of the kernel's own in a traceback; 0 for none."""
    line = 0
    while found is not None:
        if listing.holds(found.tb_frame.f_code):
            line = listing.statement(found.tb_frame.f_code.co_filename, found.tb_lineno)
        found = found.tb_next
    return line


def _launching(reference: Reference, args: list[Json], kwargs: dict[str, Json], grid: Grid, file: str) -> tuple[Any, Any]:
    """The kernel, and a function that launches it once, on tensors of its own."""
    kernel = inner_kernel(kernel_at(reference))
    bind_late(kernel)
    names = set(inspect.signature(kernel.fn).parameters)

    def launch() -> None:
        kept = _apart(torch.load(file, mmap=True, map_location="cpu", weights_only=True))
        given = {name: make(each, True, kept) for name, each in kwargs.items() if name in names}
        kernel[grid](*(make(each, True, kept) for each in args), **given)

    return kernel, launch


GAP_BYTES = 2**15
"""Between tensors, so that what is read beside one is not read from the next, and is stopped."""
MOST_MOVED = 2**28
"""Bytes of tensors that are moved apart. Larger ones stay in their file, and in memory only where they are touched."""


def _apart(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors with each storage on its own. One on the meta device gets zeros, whose memory is taken as it is touched."""
    sizes = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in tensors}
    moves = sum(sizes.values()) <= MOST_MOVED
    storages: dict[int, torch.UntypedStorage] = {}
    made = []
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage._cdata not in storages:
            storages[storage._cdata] = _moved(storage) if moves or tensor.is_meta else storage
        own = torch.empty(0, dtype=tensor.dtype)
        made.append(own.set_(storages[storage._cdata], tensor.storage_offset(), tensor.shape, tensor.stride()))
    return made


def _moved(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    size = storage.nbytes()
    if not size:
        return torch.UntypedStorage(0)
    memory = np.zeros(size + 2 * GAP_BYTES + ALIGNED_BYTES, dtype=np.uint8)
    first = GAP_BYTES + -(memory.ctypes.data + GAP_BYTES) % ALIGNED_BYTES
    own = torch.frombuffer(memory, dtype=torch.uint8, count=size, offset=first)  # keeps the memory
    if storage.device.type == "cpu":
        own.copy_(torch.empty(0, dtype=torch.uint8).set_(storage))
    return own.untyped_storage()


ALIGNED_BYTES = 512
"""As PyTorch allocates on a GPU."""


def survey(reference: Reference, args: Any, kwargs: Any, grid: Any, file: str, requests: Any, seconds: float) -> Json:
    """What `Survey.to_json` says, with "operations", the tensors' panels, and "failure" where it did not come to its end."""
    kernel, launch = _launching(reference, args, kwargs, tuple(grid), file)
    watch = Watch(Listing(listing_of(kernel, *_functions(args, kwargs))), [_requests(each) for each in requests])
    with operations_counted() as operations:
        failure = watched(watch, launch, seconds)
    if failure is not None and not failure.stopped:
        place = f"{kernel.fn.__name__} fails in program {name_of(failure.program)}, line {failure.line}"
        return {"problem": f"{place}: {failure.text.rstrip('.')}. replay, with the same arguments, opens there."}
    content = watch.last.to_json()
    content["operations"] = {name: dict(found) for name, found in vars(operations).items()}
    content["stopped"] = str(failure) if failure else ""
    content["programs"] -= bool(failure)  # the last one has not come to its end
    content["tensors"] = _tensors(watch.last)
    return content


def _functions(args: list[Json], kwargs: dict[str, Json]) -> list[Any]:
    """The jitted functions among the arguments."""
    return [make(each, True) for each in (*args, *kwargs.values()) if "function" in each]


def _requests(content: Json) -> Requests:
    """From JSON, which has lists for tuples."""
    return Requests(**content | {"path": tuple(tuple(call) for call in content["path"])})


def _tensors(survey: Survey) -> list[Json]:
    return [
        {
            "name": argument.name, "dtype": argument.dtype, "shape": list(argument.shape),
            "bytes": argument.elements * argument.itemsize, "outside": noted.outside, **_panel(Panel(argument.shape), noted),
        }
        for argument, noted in zip(survey.arguments.all, survey.maps, strict=True)
    ]  # fmt: skip


def _panel(panel: Panel, noted: Any) -> Json:
    """A tensor's cells, packed: in each the program that read or wrote its first such element, from 1; 0 for none."""

    def programs(found: np.ndarray) -> str:
        numbers = np.flatnonzero(found)
        return packed(panel.first(numbers, found[numbers], 0))

    def marked(numbers: np.ndarray) -> str:
        return packed(np.flatnonzero(panel.touched(numbers)))

    twice, unwritten = np.flatnonzero(noted.twice), noted.unwritten_reads
    return {
        "cells": list(panel.cells), "patch": list(panel.patch),
        "reader": programs(noted.reader), "writer": programs(noted.writer),
        "twice": marked(twice), "shared": marked(np.flatnonzero(noted.read_by_several)), "unwritten": marked(unwritten),
        "counts": {"twice": twice.size, "unwritten": unwritten.size},
    }  # fmt: skip


def replay(
    reference: Reference, args: Any, kwargs: Any, grid: Any, file: str, programs: Any, element: Any, seconds: float
) -> Json:
    """See `content_of`. programs: those to record; element: a tensor's name and an index, whose last writer is to be shown."""
    kernel, launch = _launching(reference, args, kwargs, tuple(grid), file)
    listing = Listing(listing_of(kernel, *_functions(args, kwargs)))
    wanted = {tuple(program) for program in programs}
    for _ in range(2):  # once more where the program to be shown turns out to be another one
        watch = Watch(listing, record={(0, program) for program in wanted})
        failure = watched(watch, launch, seconds)
        try:
            opened = opened_at(watch.last, failure, element)
        except LookupError as error:
            return {"problem": str(error)}
        if opened is None or opened in watch.recorded:
            break
        wanted.add(opened)
    return content_of(watch, 0, failure, opened, element)


def opened_at(survey: Survey, failure: Failure | None, element: Any) -> Program | None:
    """The program to be shown first: the one that failed, or the last writer of an element. LookupError where there is none."""
    if failure is not None:
        return failure.program
    if element is None:
        return None
    name, index = element
    found = [i for i, argument in enumerate(survey.arguments.all) if argument.name == name]
    if not found:
        raise LookupError(f"No tensor is called {name!r}: there is {', '.join(each.name for each in survey.arguments.all)}.")
    argument = survey.arguments.all[found[0]]
    if len(index) != len(argument.shape) or not all(0 <= i < n for i, n in zip(index, argument.shape, strict=True)):
        raise LookupError(f"There is no element {tuple(index)} in {name}, whose shape is {argument.shape}.")
    number = int(np.ravel_multi_index(tuple(index), argument.shape)) if index else 0
    offset = sum(i * stride for i, stride in zip(index, argument.strides, strict=True)) * argument.itemsize
    place = np.array([argument.address + offset], dtype=np.uint64)
    for each, noted in zip(survey.arguments.all, survey.maps, strict=True):  # it may have been written by another name
        same = int(each.numbers(place)[0])
        if 0 <= same < len(noted.writer) and (writer := int(noted.writer[same])):
            return survey.programs[writer - 1]
    raise LookupError(f"No program that was run writes {argument.place(number)}.")


def content_of(watch: Watch, launch: int, failure: Failure | None, opened: Program | None, element: Any) -> Json:
    """What a replay shows of one launch: source, tensors, the recorded programs, where to open and why it failed."""
    survey = watch.surveys[launch]
    assert survey.launched is not None
    return {
        "kernel": survey.launched.kernel,
        "grid": list(survey.launched.grid),
        "ran": [list(program) for program in survey.programs],
        "source": watch.listing.functions,
        "loops": [list(loop) for loop in watch.listing.loops],
        "tensors": _tensors(survey),
        "recorded": [steps_of(recorded) for recorded in watch.recorded.values()],
        "opened": list(opened) if opened else None,
        "element": element,
        "failure": asdict(failure) if failure else None,
    }


def steps_of(recorded: Recorded) -> Json:
    """A program's steps as JSON."""
    return {
        "program": list(recorded.program),
        "steps": [vars(step) for step in recorded.steps],
        "cut": recorded.cut,
        "blob": base64.b64encode(zlib.compress(bytes(recorded.blob.content), 9)).decode(),
    }
