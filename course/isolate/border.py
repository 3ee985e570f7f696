"""Functions that run in a child: what they take and return crosses as their type hints say."""

import functools
import inspect
import io
import os
import time
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

from course import MODE
from course.errors import CourseError

from .ended import ChildKind, Ended, How
from .pool import call

P = ParamSpec("P")
R = TypeVar("R")


class ChildError(CourseError):
    """A child that did not come to its end. `ended` says how it ended."""

    def __init__(self, message: str, ended: "Ended[Any] | None" = None) -> None:
        super().__init__(message)
        self.ended = ended


@dataclass(eq=False)
class InChild(Generic[P, R]):
    """A function at the top of a module that runs in a warm child of one kind.

    Its parameters and its result are of types that `msgspec` knows: dataclasses, tuples, lists and
    dicts of them, bytes, texts, numbers. A CourseError that it raises is raised in the caller.
    """

    here: Callable[P, R]
    """The function itself, in this process."""
    kind: ChildKind
    timeout_s: float
    prepare: Callable[[], None] | None = None
    """What a worker does once, before it runs the function for the first time."""
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.here)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """What the function returns in a child. Raises ChildError if it does not come to its
        end."""
        if os.environ.get("COURSE_CHILD") == self.kind:
            return self.here(*args, **kwargs)
        ended = self.ended(*args, **kwargs)
        if ended.error is not None:
            raise ended.error
        if ended.how != "finished":
            name = self.here.__name__.replace("_", " ").strip()
            raise ChildError(f"{ended.sentence(f'The process for {name!r}')}.", ended)
        return ended.value  # type: ignore[return-value]

    def within(
        self, *, kind: ChildKind, timeout_s: float, memory_bytes: int | None = None
    ) -> "InChild[P, R]":
        """The same function in a child of this kind and within these limits: see `pool.call`."""
        return InChild(self.here, kind, timeout_s, self.prepare, memory_bytes)

    def ended(self, *args: P.args, **kwargs: P.kwargs) -> Ended[R]:
        """Run the function in a child, and say how that ended; in a page of the site, here."""
        if MODE.in_page:
            return ended_here(self.here, *args, **kwargs)
        bound = inspect.signature(self.here).bind(*args, **kwargs)
        bound.apply_defaults()
        return call(
            self.here,
            *bound.args,
            kind=self.kind,
            timeout_s=self.timeout_s,
            memory_bytes=self.memory_bytes,
        )


def ended_here(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Ended[R]:
    """Call a function in this process, which is the only one, and say how that ended."""
    out, err, begin = io.StringIO(), io.StringIO(), time.monotonic()
    value, error, failed = None, None, True
    try:
        with redirect_stdout(out), redirect_stderr(err):
            value = function(*args, **kwargs)
        failed = False
    except CourseError as raised:
        error = raised
    except Exception:
        traceback.print_exc(file=err)
    how: How = "failed" if failed else "finished"
    seconds = time.monotonic() - begin
    return Ended(how, int(failed), out.getvalue(), err.getvalue(), seconds, value, error)


def runs_in(
    kind: ChildKind, *, timeout_s: float = 60, prepare: Callable[[], None] | None = None
) -> Callable[[Callable[P, R]], InChild[P, R]]:
    """Decorate a function that runs in a child of this kind. See `InChild`.

    timeout_s: CPU time that a call may take. prepare: what a worker does once before the first
        call.
    """
    return lambda function: InChild(function, kind, timeout_s, prepare)
