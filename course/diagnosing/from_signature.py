"""A launch as the command line writes it: a kernel of a file, a grid, tensors by their sizes."""

import inspect
import re
from pathlib import Path
from typing import Any

import torch

from course.errors import CourseError
from course.lowering.binding import literal
from course.lowering.kernel_reference import InFile, loaded_at
from course.lowering.type_texts import DTYPES
from course.triton_internals.jit_functions import plain_function
from course.type_names import AnyValue

from .api import diagnose
from .result import Diagnosis

POINTER = re.compile(r"\*(\w+)\[([\d, ]*)\]")


def diagnose_file(
    file: str | Path,
    name: str,
    grid: str,
    signature: list[str],
    target: str | None = None,
    /,
    **options: Any,
) -> Diagnosis:
    """Diagnose the kernel `name` of a file, which is executed to find it.

    grid: as "4096" or "64, 64". signature: a text for each argument, in order: a tensor as
    "*fp32[1024, 1024]", which holds zeros, and any other as its value. options: arguments by name,
    as texts too, and options of the compiler.

    Raises CourseError as `diagnose` does, and for a text that says neither.
    """
    reference = InFile.of(file, name)
    axes = re.fullmatch(r"\s*\d+(\s*,\s*\d+){0,2}\s*", grid)
    if not axes:
        raise CourseError(
            f"The grid must be one to three whole numbers, as 4096 or 64,64; it is {grid!r:.60}."
        )
    kernel = loaded_at(reference)
    args = [_argument(text) for text in signature]
    # In order, as far as that goes: a kernel's own `target` is not that of `diagnose`.
    function = plain_function(kernel)
    for parameter in list(inspect.signature(function).parameters)[len(args) :] if function else ():
        if parameter not in options:
            break
        args.append(_argument(options.pop(parameter)))
    named = {key: _argument(value) for key, value in options.items()}
    sizes = tuple(int(size) for size in grid.split(","))
    return diagnose(kernel, sizes, *args, target=target, **named)


def _argument(text: Any) -> AnyValue:
    """A tensor of zeros that takes no memory, or the value that a text writes."""
    if not isinstance(text, str):
        return text
    if not text.startswith("*"):
        return literal(text)
    match = POINTER.fullmatch(text.strip())
    if not match or match[1] not in DTYPES:
        raise CourseError(
            f"{text!r} is not a tensor that can be followed: write its type and its sizes, as "
            "*fp32[1024, 1024]."
        )
    sizes = [int(size) for size in match[2].split(",") if size.strip()]
    return torch.empty(sizes, dtype=DTYPES[match[1]], device="meta")
