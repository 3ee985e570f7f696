"""What runs in the child: a launch on copies of its tensors, counted or recorded step by step."""

import inspect
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from course.errors import CourseError
from course.isolate import runs_in
from course.lowering.arguments import Function
from course.lowering.kernel_reference import kernel_at, listing_of
from course.lowering.memory_requests import Requests
from course.triton_internals.interpreter import Program
from course.triton_internals.jit_functions import inner_kernel
from course.triton_internals.operation_counts import operations_counted

from .coalescing import LaunchCounter
from .copies import on_storage
from .kernel_text import KernelText
from .launch import TRACE_S, PackedLaunch
from .observer import Watch, watched
from .records import Element, Failure, LaunchCounts, Recording, program_text
from .sample import Plan
from .undefined import NOTE, marked

MORE_S = 40
"""Seconds of computing to begin and to pack up."""
GAP_BYTES = 2**15
"""Bytes between tensors, so that what is read beside one is not read from the next, and stopped."""
ALIGNED_BYTES = 512
"""The alignment that PyTorch gives to memory on a GPU."""
MOST_MOVED = 2**28
"""Bytes of tensors that are moved apart. Larger ones stay in their file until they are touched."""


class LackingError(CourseError):
    """The interpreter cannot run a kernel, by no fault of the kernel's. args: reason, line."""


@runs_in("interpret", timeout_s=TRACE_S + MORE_S)
def survey(
    launch: PackedLaunch, requests: list[Requests], plan: Plan, seconds: float, maps: bool
) -> LaunchCounts:
    """Count what a launch touches and computes, by those of its programs that are followed.

    seconds: of computing, after which the launch is stopped. maps: whether to note which program
    touched which element.
    Raises CourseError if the kernel fails, and LackingError if the interpreter does.
    """
    run, text = _launching(launch)
    with operations_counted() as operations:
        watch = Watch(text, requests, operations=operations, plan=plan, maps=maps, copied=True)
        failure = watched(watch, run, seconds)
    _check_ran(watch, seconds)
    if failure is None:
        return watch.last.counts(sizes=plan.sizes)
    if failure.lacking:
        raise LackingError(failure.text.rstrip("."), failure.line)
    if not failure.stopped:
        program, line = program_text(failure.program), failure.line
        opens = "" if watch.last.doubted else " replay opens at the first that fails."
        raise CourseError(
            f"{text.functions[0].name} fails in program {program}, line {line}: "
            f"{failure.text.rstrip('.')}.{opens}"
        )
    watch.last.forget_unfinished()
    return watch.last.counts(failure.text, plan.sizes)


@runs_in("interpret", timeout_s=TRACE_S + MORE_S)
def record(
    launch: PackedLaunch, programs: list[Program], element: Element | None, seconds: float
) -> Recording:
    """Record programs of a launch step by step, in so many seconds of computing.

    element: the element whose last writer is to be shown. Raises CourseError if there is none.
    """
    run, text = _launching(launch)

    def followed(programs: set[Program], undefined_as_zero: bool) -> tuple[Watch, Failure | None]:
        watch = Watch(text, record={(0, program) for program in programs}, copied=True)
        failure = watched(watch, run, seconds, undefined_as_zero)
        _check_ran(watch, seconds)
        return watch, failure

    wanted = set(programs)
    for _ in range(2):  # once more if the program to be shown turns out to be another one
        watch, failure = followed(wanted, undefined_as_zero=True)
        other, failure_there = followed(wanted, False) if watch.undefined else (watch, failure)
        if failure_there and not failure:
            watch, failure = other, failure_there  # by what masked lanes hold
        opened = _opened_at(watch.last, failure, element)
        if opened is None or opened in watch.recorded:
            break
        wanted.add(opened)
    recorded = recording(watch, 0, failure, opened, element)
    if other is watch:
        return recorded
    pairs = [(each, other.recorded.get(each.program, each)) for each in recorded.programs]
    notes = recorded.notes + ([] if _same_memory(watch.last, other.last) else [NOTE])
    return replace(recorded, programs=[marked(*pair) for pair in pairs], notes=notes)


def _same_memory(one: LaunchCounter, other: LaunchCounter) -> bool:
    """Whether two launches have left the same in their tensors."""
    pairs = zip(one.launch.tensors, other.launch.tensors, strict=True)
    storages = ([each.untyped_storage() for each in pair] for pair in pairs)
    return all(torch.equal(*map(_bytes_of, pair)) for pair in storages)


def _bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def recording(
    watch: Watch,
    launch: int,
    failure: Failure | None,
    opened: Program | None,
    element: Element | None,
) -> Recording:
    """What was recorded of one launch. launch: its number."""
    counter = watch.launches[launch]
    return Recording(
        kernel=counter.launch.kernel,
        grid=counter.launch.grid,
        ran=counter.programs,
        functions=watch.text.functions,
        loops=watch.text.loops,
        tensors=counter.panels(),
        programs=[*watch.recorded.values()],
        opened=opened,
        element=element,
        failure=failure,
        notes=[counter.doubted.reason] if counter.doubted else [],
    )


def _check_ran(watch: Watch, seconds: float) -> None:
    if not watch.launches:
        raise CourseError(
            f"The launch was stopped after {seconds:g} s, before a program ran: this machine may "
            "be busy, so try again."
        )


def _opened_at(
    launch: LaunchCounter, failure: Failure | None, element: Element | None
) -> Program | None:
    """The program to be shown first: the one that failed, or the last writer of an element.

    Raises CourseError if there is no such element, or nobody wrote it.
    """
    if failure is not None:
        return failure.program
    if element is None:
        return None
    arguments = {argument.name: argument for argument in launch.arguments.all}
    if element.tensor not in arguments:
        there = ", ".join(argument.name for argument in launch.arguments.all)
        raise CourseError(f"No tensor is called {element.tensor!r}: there is {there}.")
    argument, index = arguments[element.tensor], element.index
    shape = argument.shape
    if len(index) != len(shape) or not all(0 <= i < n for i, n in zip(index, shape, strict=True)):
        raise CourseError(
            f"There is no element {index} in {element.tensor}, whose shape is {shape}."
        )
    offset = sum(i * stride for i, stride in zip(index, argument.strides, strict=True))
    # By this name or another.
    written = launch.last_writer(argument.address + offset * argument.itemsize)
    if written is None:
        number = int(np.ravel_multi_index(index, shape)) if index else 0
        raise CourseError(f"No program that was run writes {argument.place(number)}.")
    return written[2]


def _launching(launch: PackedLaunch) -> tuple[Callable[[], None], KernelText]:
    """A function that launches the kernel, each time on new copies; the text of what may run."""
    kernel = inner_kernel(kernel_at(launch.reference))
    names = set(inspect.signature(kernel.fn).parameters)

    def run() -> None:
        saved = torch.load(launch.tensors, mmap=True, map_location="cpu", weights_only=True)
        tensors = _moved_apart(saved)
        named = {name: value for name, value in launch.kwargs.items() if name in names}
        args = [value.make(True, tensors) for value in launch.args]
        kwargs = {name: value.make(True, tensors) for name, value in named.items()}
        kernel[launch.grid](*args, **kwargs)

    values = (*launch.args, *launch.kwargs.values())
    functions = [value.make(True) for value in values if isinstance(value, Function)]
    return run, KernelText(listing_of(kernel, *functions))


def _moved_apart(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors with each storage on its own.

    One on the device "meta" gets zeros, whose memory is taken as it is touched.
    """
    storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage() for tensor in tensors}
    small = sum(storage.nbytes() for storage in storages.values()) <= MOST_MOVED
    apart = {
        key: _moved(storage) if small or storage.device.type == "meta" else storage
        for key, storage in storages.items()
    }
    return [on_storage(apart[tensor.untyped_storage()._cdata], tensor) for tensor in tensors]


def _moved(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """A copy in memory of its own, with a gap before and after it."""
    size = storage.nbytes()
    if not size:
        return torch.UntypedStorage(0)
    memory = np.zeros(size + 2 * GAP_BYTES + ALIGNED_BYTES, dtype=np.uint8)
    first = GAP_BYTES + -(memory.ctypes.data + GAP_BYTES) % ALIGNED_BYTES
    copy = torch.frombuffer(memory, dtype=torch.uint8, count=size, offset=first)  # keeps the memory
    if storage.device.type == "cpu":
        copy.copy_(_bytes_of(storage))
    return copy.untyped_storage()
