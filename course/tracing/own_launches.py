"""A launch of a cell's own in CPU mode: it runs as the tools run it, and fails in their words."""

import ast
import inspect
import textwrap
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from triton import InterpreterError

from course.triton_internals.error_meanings import meaning
from course.triton_internals.errors import NO_VALUE, cannot_run, causes, lacking
from course.triton_internals.interpreter import Access, Launch, Program, interpreter_watched
from course.triton_internals.interpreter_gaps import are_filled
from course.type_names import AnyValue, AnyValues, Function, Kernel

from .bounds import FoundError, Storages
from .own_line import OwnLine, raising_line, running_line


class OwnLaunchError(InterpreterError):  # type: ignore[misc]
    """A launch that failed: what `verify` says of it, and below that the line."""

    def _render_traceback_(self) -> list[str]:
        # What a notebook shows in place of a traceback through Triton's interpreter.
        return [f"{type(self).__name__}: {self}"]


@lru_cache(maxsize=64)
def _returned(function: Function) -> str:
    """The line in which a kernel returns a value, which the interpreter by itself throws away."""
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return ""
    for node in ast.walk(ast.parse(textwrap.dedent("".join(lines)))):
        if isinstance(node, ast.Return) and node.value and ast.unparse(node.value) != "None":
            return str(OwnLine(function.__code__.co_filename, first + node.lineno - 1))
    return ""


class _Inside:
    """An observer that stops an access outside of all that the launch was given."""

    def launch(self, launch: Launch) -> None:
        self._storages = Storages(launch)

    def program(self, program: Program) -> None:
        """Nothing is kept of it."""

    def access(self, access: Access) -> None:
        self._storages.stop_outside(access)


def run(own_run: Function, kernel: Kernel, args: Sequence[AnyValue], named: AnyValues) -> None:
    """Launch a kernel by `own_run`, Triton's own way.

    named: with the grid, and whether it is a warmup. Raises OwnLaunchError where what went wrong
    can be said plainly, and else what Triton raises.
    """
    if named.get("warmup") or are_filled():  # a tool's launch
        own_run(kernel, *args, **named)
        return
    if line := _returned(kernel.fn):
        raise OwnLaunchError(f"{NO_VALUE}\n{line}")
    try:
        with np.errstate(all="ignore"), interpreter_watched(_Inside(), undefined_as_zero=True):
            own_run(kernel, *args, **named)
    except Exception as error:
        found = [each for each in causes(error) if isinstance(each, FoundError)]
        lack = lacking(error)
        text = found[0].problem.text if found else cannot_run(lack) if lack else meaning(error)
        if not text:
            raise
        told = filter(None, [text, str(raising_line(error) or running_line() or "")])
        raise OwnLaunchError("\n".join(told)) from error
