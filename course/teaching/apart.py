"""Run a cell's function in a process of its own, so that what it breaks is not this session."""

from collections.abc import Callable
from typing import Any

from course.child import Ended, run_source
from course.compiling.source import module_source
from course.errors import CourseError

# Answers a breakpoint() with the given lines and shows each after its prompt, as a person's typing would.
_TYPIST = """
import io
import pdb
import sys


class _Typist(io.StringIO):
    def readline(self, *limit):
        line = super().readline(*limit)
        print(line, end="")
        return line


_debugger = pdb.Pdb(stdin=_Typist({text!r}), stdout=sys.stdout, nosigint=True, readrc=False)
_debugger.use_rawinput = False
sys.breakpointhook = lambda: _debugger.set_trace(sys._getframe(1))
"""


def apart(function: Callable[[], Any], *, interpret: bool = False, typed: str = "", timeout_s: float = 60) -> None:
    """Call `function()` in a process of its own and print what it prints, and how it ended.

    function: takes no arguments; what it uses from the notebook (kernels, helpers, constants) goes along.
    interpret: run kernels in the interpreter, in GPU mode too.
    typed: the lines typed at a `breakpoint()` in the function or its kernels.

    Raises CourseError where something the function uses cannot go along.
    """
    if not callable(function) or not hasattr(function, "__code__") or function.__code__.co_argcount:
        raise CourseError("apart takes a function with no arguments, as in: apart(read_far_away)")
    source = module_source(function)
    if typed:
        source += _TYPIST.format(text=typed.rstrip("\n") + "\n")
    source += f"\n\n{function.__name__}()\n"
    ended = run_source(source, "interpret" if interpret else "same", timeout_s)
    if ended.stdout:
        print(ended.stdout, end="" if ended.stdout.endswith("\n") else "\n")
    print(_verdict(ended, timeout_s))


def _verdict(ended: Ended, timeout_s: float) -> str:
    if ended.how == "finished":
        return "The process finished."
    if ended.how == "out of time":
        return f"The process was ended after {timeout_s:g} s. This session goes on."
    if ended.how == "crashed":
        return f"The process was killed by {ended.signal}. This session goes on."
    return f"The process failed: {_exception_line(ended.stderr) or f'exit code {ended.code}'}. This session goes on."


def _exception_line(stderr: str) -> str:
    """The exception's own line: the first after the last traceback's frames, which are indented."""
    _, found, after = stderr.rpartition("Traceback (most recent call last):\n")
    return next((line for line in after.splitlines() if found and not line.startswith(" ")), "").rstrip(".")
