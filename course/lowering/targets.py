"""compiles_for: on which GPUs does a kernel compile, and fit?"""

from collections.abc import Sequence
from dataclasses import dataclass

from course.type_names import AnyValue, Kernel

from .api import LowerError, lower

TARGETS = ("sm_80", "sm_89", "sm_90", "sm_120")
"""A100, RTX 40, H100 and H200, RTX 50."""


@dataclass(frozen=True)
class Compiles:
    """For each architecture, why a kernel does not work there; "" where it compiles and fits."""

    problems: dict[str, str]

    def __str__(self) -> str:
        lines = {name: problem or "compiles" for name, problem in self.problems.items()}
        return "\n".join(f"{name:7}{line}" for name, line in lines.items())

    __repr__ = __str__


def compiles_for(
    kernel: Kernel, *args: AnyValue, targets: Sequence[str] = TARGETS, **kwargs: AnyValue
) -> Compiles:
    """Compile a kernel for several architectures, without a GPU.

    args, kwargs: as for `lower`. That a kernel compiles does not say that it is fast there.
    """
    return Compiles({name: _problem(kernel, args, kwargs, name) for name in targets})


def _problem(
    kernel: Kernel, args: tuple[AnyValue, ...], kwargs: dict[str, AnyValue], name: str
) -> str:
    try:
        lowered = lower(kernel, *args, target=name, **kwargs)
    except LowerError as error:
        # What the compiler aborts on it does not explain.
        said = "" if error.kind == "crashed" else f": {str(error).splitlines()[0]}"
        return f"does not compile{said}"
    needs = lowered.resources
    if needs.shared_bytes > needs.most_shared_bytes:
        has = f"a program has {needs.most_shared_bytes:,}"
        return f"too large: {needs.shared_bytes:,} bytes of shared memory, and {has}"
    return ""
