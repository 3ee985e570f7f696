"""The line of the reader's own code that is running, or that an exception came from."""

import linecache
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType

import triton
from triton import InterpreterError

from course.isolate.function_source import place_of

COURSE = str(Path(__file__).parents[1])
PACKAGES = str(Path(triton.__file__).parents[1])
PYTHONS = map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))
OTHERS = tuple(
    f"{os.path.normpath(folder)}{os.sep}" for folder in {COURSE, PACKAGES, sys.prefix, *PYTHONS}
)
"""Folders of Python's, of installed packages' and of this course's own code."""


@dataclass(frozen=True)
class OwnLine:
    """A line of the reader's file or cell."""

    file: str
    number: int

    def __str__(self) -> str:
        """As "Line 9 of your cell:  x = tl.load(x_ptr + offsets)"."""
        text = linecache.getline(self.file, self.number).strip()
        return f"Line {self.number} of {place_of(self.file)}:  {text}" if text else ""


def running_line() -> OwnLine | None:
    """The innermost line of the reader's own that is running in this thread, if there is one."""
    return next(_own_lines(traceback.walk_stack(sys._getframe(1))), None)


def raising_line(error: BaseException) -> OwnLine | None:
    """The innermost line of the reader's own through which an exception came, if there is one.

    One of Triton's helpers, interpreted, raises in no such line: then the call of it counts.
    """
    line = None
    if isinstance(error, InterpreterError) and error.__cause__ is not None:
        line = raising_line(error.__cause__)
    return line or next(_own_lines(reversed([*traceback.walk_tb(error.__traceback__)])), None)


def _own_lines(frames: Iterable[tuple[FrameType, int]]) -> Iterator[OwnLine]:
    for frame, number in frames:
        if is_own(frame.f_code.co_filename):
            yield OwnLine(frame.f_code.co_filename, number)


@lru_cache(maxsize=4096)
def is_own(file: str) -> bool:
    """Whether it is the reader's file or cell, and not Python's, a package's or this course's."""
    if file.startswith("<"):
        return file.startswith("<cell")
    return not file.startswith(OTHERS)
