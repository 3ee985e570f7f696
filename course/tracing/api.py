"""cost and replay: what a launch moves and computes, and its programs step by step.

Both run the launch in the interpreter, in a child, on copies of its tensors. `draw.access`, in
access_view.py, is the third.
"""

import inspect
from dataclasses import replace
from typing import Any

import torch

from course import MODE
from course.errors import CourseError
from course.gpus.limits import target_of
from course.gpus.peaks import Gpu, gpu_of
from course.triton_internals.interpreter import Grid, Program
from course.triton_internals.jit_functions import plain_function
from course.type_names import AnyValue, Kernel

from . import worker
from .launch import (
    TRACE_S,
    measured_us,
    packed,
    refuse_clusters,
    requested,
    value_of,
    whole_numbers,
)
from .records import Element, Recording, grid_text
from .replay import Replay
from .result import AccessCost, Cost


def cost(
    kernel: Kernel, grid: Any, *args: AnyValue, target: str | None = None, **kwargs: AnyValue
) -> Cost:
    """What one launch moves and computes, and the least time it takes on a GPU.

    kernel, grid, args, kwargs: as in kernel[grid](*args, **kwargs). Of a grid of more than 1,024
        programs a sample is run. Tensors on the device "meta" take no memory and hold zeros.
    target: a GPU with known peak figures, as "H200", "A100", "RTX 4090" or "MI300X"; by default
        this machine's, and an H200 if it has none. The kernel is compiled for it: sectors follow
        from the layouts that the compiler has chosen.
    The roofs are those of memory, of the L2 cache where its speed was measured (on an H200, and on
        the reader's own GPU), of the arithmetic, the tensor cores and the special functions.
    On that very GPU the launch is timed too. A GPU that `course doctor --measure` has measured
    stands beside it, and takes the place of peak figures if there are none for this machine's.

    Raises CourseError if the arguments are no launch, or the kernel fails.
    """
    from course.gpus.own_gpu import own_gpu  # which no replay needs

    own = own_gpu()
    gpu = gpu_of(target) if target is not None else this_gpu(own)
    from .survey import survey  # which compiles

    surveyed = survey("cost", kernel, grid, args, kwargs, gpu.target)
    launch, counts = surveyed.launch, surveyed.counts
    accesses = tuple(
        AccessCost(
            line=access.line,
            text=surveyed.texts.get((access.file, access.line), ""),
            kind=access.kind,
            tensor="memory" if access.tensor is None else counts.tensors[access.tensor].name,
            bytes=access.bytes,
            masked=access.masked,
            requests=access.requests,
            sectors=access.sectors,
            least=access.needed,
            by_descriptor=access.by_descriptor,
        )
        for access in counts.accesses
        if access.bytes or access.tensor is not None  # all of whose lanes are masked leads nowhere
    )
    storages = counts.storages
    return Cost(
        kernel=counts.kernel,
        grid=launch.grid,
        programs=counts.programs,
        gpu=gpu,
        accesses=accesses,
        distinct_loaded=sum(storage.loaded.bytes for storage in storages),
        distinct_stored=sum(storage.stored.bytes for storage in storages),
        distinct_sectors=sum(each.loaded.sectors + each.stored.sectors for each in storages),
        simple=counts.simple,
        special=counts.special,
        dot=counts.dot,
        resources=surveyed.resources,
        notes=tuple(surveyed.notes),
        measured_us=measured_us(launch, gpu),
        own=own,
    )


def this_gpu(own: Gpu | None) -> Gpu:
    """This machine's GPU; an H200 if it has none.

    own: the reader's GPU as measured, which is taken where no peak figures are published for it.
    """
    if not MODE.gpu:
        return gpu_of("H200")
    try:
        return gpu_of(torch.cuda.get_device_name())
    except CourseError as error:
        if own is None:
            raise CourseError(
                f"{error} Name one of them as `target`, or run `course doctor --measure` once."
            ) from None
        return replace(own, target=target_of(None).name)


def replay(kernel: Kernel, grid: Any, *args: AnyValue, **kwargs: AnyValue) -> Replay:
    """Step through the programs of a launch, line by line, forwards and backwards.

    kernel, grid, args, kwargs: as in kernel[grid](*args, **kwargs).
    program: a number, or a tuple, of the program to open at; by default the first, or the one that
        fails.
    element: a parameter's name and an index, as ("out_ptr", 5) or ("out_ptr", (3, 5)): opens at the
        program that wrote that element.

    Shown in a notebook; `.to_html("file.html")` writes a page that needs no session. Raises
    CourseError if the arguments are no launch.
    """
    function = plain_function(kernel)
    parameters = inspect.signature(function).parameters if function else {}
    options = {
        name: kwargs.pop(name, None) if name not in parameters else None
        for name in ("program", "element")
    }
    launch = requested("replay", kernel, grid, args, kwargs)
    refuse_clusters("replay", (launch.given | launch.kwargs).get("num_ctas", 1))
    program = _program(options["program"], launch.grid)
    element = _element(options["element"])

    def again(programs: list[Program], element: Element | None) -> Recording:
        with packed(launch) as packed_launch:
            return value_of(worker.record.ended(packed_launch, programs, element, TRACE_S))

    x, y, z = launch.grid
    first = [program or (0, 0, 0), (0, 0, 0), (min(1, x - 1), 0, 0), (x - 1, y - 1, z - 1)]
    return Replay(again, again(first, element), program)


def _program(program: Any, grid: Grid) -> Program | None:
    """A program as its three coordinates. Raises CourseError if there is none such."""
    if program is None:
        return None
    axes = whole_numbers(program) or (-1,)
    x, y, z = (*axes, 0, 0, 0)[:3]
    inside = all(0 <= i < size for i, size in zip((x, y, z), grid, strict=True))
    if len(axes) > 3 or not inside:
        raise CourseError(f"There is no program {program!r} in the grid {grid_text(grid)}.")
    return x, y, z


def _element(element: Any) -> Element | None:
    if element is None:
        return None
    is_pair = isinstance(element, (tuple, list)) and len(element) == 2
    if not is_pair or not isinstance(element[0], str):
        raise CourseError(
            'element takes a parameter\'s name and an index, as ("out_ptr", (3, 5)); '
            f"it is {element!r:.60}."
        )
    name, index = element
    if (axes := whole_numbers(index)) is None:
        raise CourseError(f"The index of element must be whole numbers; it is {index!r:.60}.")
    return Element(name, axes)
