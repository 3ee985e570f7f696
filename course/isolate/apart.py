"""Run a cell's function in a process of its own, so that what it breaks is not this session."""

import io
import pdb
import sys
from collections.abc import Callable
from typing import Any

from course import MODE
from course.errors import CourseError

from .border import runs_in
from .ended import ChildKind, Ended
from .function_source import Source, source_of


def apart(
    function: Callable[[], Any], *, interpret: bool = False, typed: str = "", timeout_s: float = 60
) -> None:
    """Call `function()` in a process of its own and print what it prints, and how it ended.

    function: takes no arguments; what it uses from the notebook (kernels, helpers, constants) goes
        along.
    interpret: run kernels in the interpreter, in GPU mode too.
    typed: the lines typed at a `breakpoint()` in the function or its kernels.
    timeout_s: for how long it may compute.

    Raises CourseError where something the function uses cannot go along.
    """
    if not callable(function) or not hasattr(function, "__code__") or function.__code__.co_argcount:
        raise CourseError("apart takes a function with no arguments, as in: apart(read_far_away)")
    kind: ChildKind = "interpret" if interpret or MODE.interpreting else "launch"
    ended = _there.within(kind=kind, timeout_s=timeout_s).ended(source_of(function), typed)
    if ended.stdout:
        print(ended.stdout, end="" if ended.stdout.endswith("\n") else "\n")
    print(_verdict(ended))


@runs_in("interpret")
def _there(source: Source, typed: str) -> None:
    """In the child: call the function, with a debugger that is given the typed lines."""
    function = source.load()
    if typed:
        debugger = pdb.Pdb(
            stdin=_Typist(typed.rstrip("\n") + "\n"), stdout=sys.stdout, nosigint=True, readrc=False
        )
        debugger.use_rawinput = False

        def stop() -> None:
            debugger.set_trace(sys._getframe(1))

        sys.breakpointhook = stop
    function()


class _Typist(io.StringIO):
    """Gives the lines to the debugger and shows each after its prompt, as a person's typing
    would."""

    def readline(self, *limit: int) -> str:  # type: ignore[override]
        line = super().readline(*limit)
        print(line, end="")
        return line


def _verdict(ended: Ended[None]) -> str:
    if ended.how == "finished":
        return "It finished." if MODE.in_page else "The process finished."
    busy = ": this machine is too busy, or it waits for something that never comes"
    who = "It" if MODE.in_page else "The process"
    how = f"{ended.sentence(who)}{busy if ended.starved else ''}"
    return f"{how}. This session goes on.\n{ended.own_line}".rstrip()
