"""What the compiler is asked for: a kernel, and arguments to specialize it for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from course.type_names import AnyValue, AnyValues

from .arguments import Constant, Described, describe
from .kernel_reference import KernelReference


@dataclass(frozen=True)
class Request:
    """A kernel with its arguments, so that it can be compiled again."""

    kernel: KernelReference
    args: list[Described]
    kwargs: dict[str, Described]
    literal: bool = False
    """Whether texts for constants are Python literals if they can be, as on the command line."""

    @classmethod
    def of(cls, kernel: KernelReference, args: Sequence[AnyValue], kwargs: AnyValues) -> "Request":
        """Raises CourseError naming what a kernel cannot be given."""
        named = {name: describe(value) for name, value in kwargs.items()}
        return cls(kernel, [*map(describe, args)], named)

    def with_options(self, **options: int) -> "Request":
        """The same kernel with other options of the compiler."""
        constants = {name: Constant(repr(value)) for name, value in options.items()}
        return replace(self, kwargs={**self.kwargs, **constants})

    def by_name(self, names: list[str]) -> dict[str, Described]:
        """The arguments by the names of the kernel's parameters."""
        return dict(zip(names, self.args, strict=False)) | self.kwargs
