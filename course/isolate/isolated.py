"""Run a cell's function in a process of its own, so that what it breaks is not this session."""

import io
import pdb
import sys
from collections.abc import Callable
from typing import Any

from course import MODE
from course.errors import CourseError

from .function_source import Source, source_of
from .pool import Ended, Kind, call


def apart(
    function: Callable[[], Any], *, interpret: bool = False, typed: str = "", timeout_s: float = 60
) -> None:
    """Call `function()` in a process of its own and print what it prints, and how it ended.

    function: takes no arguments; what it uses from the notebook (kernels, helpers, constants) goes along.
    interpret: run kernels in the interpreter, in GPU mode too.
    typed: the lines typed at a `breakpoint()` in the function or its kernels.
    timeout_s: for how long it may compute.

    Raises CourseError where something the function uses cannot go along.
    """
    if not callable(function) or not hasattr(function, "__code__") or function.__code__.co_argcount:
        raise CourseError("apart takes a function with no arguments, as in: apart(read_far_away)")
    kind: Kind = "interpret" if interpret or MODE.interpreting else "launch"
    ended = call(_there, source_of(function).to_json(), typed, kind=kind, timeout_s=timeout_s)
    if ended.stdout:
        print(ended.stdout, end="" if ended.stdout.endswith("\n") else "\n")
    print(_verdict(ended))


def _there(source: dict[str, Any], typed: str) -> None:
    """In the child."""
    function = Source.from_json(source).load()
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
    """Gives the lines to the debugger and shows each after its prompt, as a person's typing would."""

    def readline(self, *limit: int) -> str:  # type: ignore[override]
        line = super().readline(*limit)
        print(line, end="")
        return line


def _verdict(ended: Ended) -> str:
    if ended.how == "finished":
        return "The process finished."
    if ended.stopped:
        why = (
            ": this machine is too busy, or it waits for something that never comes"
            if ended.starved
            else ""
        )
        return f"The process was stopped {ended.stopped}{why}. This session goes on."
    if ended.how == "crashed":
        return f"The process was killed by {ended.signal}. This session goes on."
    return f"The process failed: {ended.exception.rstrip('.') or f'exit code {ended.code}'}. This session goes on."
