"""The launches of an answer that the interpreter saw, from which the compiler makes them again.

A launcher may raise while it is only compiled, as one does that asks for tensors on a GPU, or that
looks at what a kernel has written.
"""

import contextlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from course.lowering.arguments import Described, describe
from course.lowering.kernel_reference import KernelReference, reference_of
from course.places import content, home
from course.triton_internals.interpreter import launches_noted
from course.triton_internals.jit_functions import jit_function
from course.type_names import AnyValue, AnyValues, Kernel

MOST = 64
"""Launches of different arguments that are kept; a case has one or a few."""


@dataclass(frozen=True)
class SeenLaunch:
    """A launch that the interpreter ran."""

    kernel: KernelReference
    args: tuple[Described, ...]
    kwargs: dict[str, Described]
    """The options of the compiler among them, such as num_warps."""
    file: str
    """Where the kernel stands."""

    def compile(self) -> None:
        """Launch the kernel again, where launches only compile and the answer is defined."""
        kernel = jit_function(self.kernel.load())
        constants = [parameter.is_constexpr for parameter in kernel.params]
        by_name = dict(zip(kernel.arg_names, constants, strict=True))
        args = [
            each.make(is_constant) for each, is_constant in zip(self.args, constants, strict=False)
        ]
        kwargs = {name: each.make(by_name.get(name, True)) for name, each in self.kwargs.items()}
        kernel[(1,)](*args, **kwargs)

    @property
    def of_the_course(self) -> str:
        """The course's file that the kernel stands in, as "kernels/matmul.py"; empty for another's
        kernel."""
        path = Path(self.file)
        folders = [folder for folder in (content(), home()) if (folder / "kernels") in path.parents]
        return path.relative_to(folders[0]).as_posix() if folders else ""


@contextlib.contextmanager
def launches_seen() -> Iterator[list[SeenLaunch]]:
    """While active, each launch in the interpreter is added to the list that this yields, once for
    the same kernel and arguments."""
    seen: list[SeenLaunch] = []
    # Where the kernel is once the answer is defined again.
    reference = cache(partial(reference_of, asker="check", kernels_as_text=True))

    def note(kernel: Kernel, args: tuple[AnyValue, ...], kwargs: AnyValues) -> None:
        with contextlib.suppress(Exception):  # another process could not make it again
            described = tuple(map(describe, args))
            named = {name: describe(value) for name, value in kwargs.items()}
            launch = SeenLaunch(reference(kernel), described, named, inspect.getfile(kernel.fn))
            if launch not in seen and len(seen) < MOST:
                seen.append(launch)

    with launches_noted(note):
        yield seen
