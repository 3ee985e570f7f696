"""One kernel compiled many times.

configs: what does each configuration of `@triton.autotune` take of a GPU? compiles_for: on which
GPUs does the kernel compile, and fit?
"""

from collections.abc import Sequence
from dataclasses import dataclass

import triton

from course.errors import CourseError
from course.table import columns
from course.triton_internals.choices import config_text, configs_of
from course.type_names import AnyValue, Kernel

from .api import LowerError, lower
from .kernel_reference import function_of
from .occupancy import Resources
from .recorded_grid import without_grid


@dataclass(frozen=True)
class Configuration:
    """One configuration, compiled."""

    number: int
    """What `config` takes for it."""
    config: triton.Config
    resources: Resources | None
    """None if it does not compile."""
    problem: str = ""
    """Why it does not compile."""

    @property
    def row(self) -> tuple[str, ...]:
        """The cells of its row."""
        values, options = config_text(self.config), (str(self.config.num_stages),)
        if self.resources is None:
            return str(self.number), values, *options, "", "", self.problem.partition("\n")[0]
        shared = f"{self.resources.shared_bytes:,}"
        if not self.resources.fits:
            shared += " (cannot be launched)"
        taken = str(self.resources.registers), str(self.resources.spill_bytes), shared
        return str(self.number), values, *options, *taken


HEAD = ("config", "values", "stages", "registers", "bytes spilled", "shared bytes")


class Configurations(list[Configuration]):
    """All configurations of a kernel, in their order. Prints as a table."""

    def __repr__(self) -> str:
        return columns([HEAD, *(each.row for each in self)])


def configs(
    kernel: Kernel, *args: AnyValue, target: str | None = None, **kwargs: AnyValue
) -> Configurations:
    """Compile every configuration of a kernel under `@triton.autotune`: registers and bytes spilled
    per thread, bytes of shared memory per program.

    args, kwargs, target: as for `lower`, without what the configurations give. Each takes a
    compilation.

    Raises CourseError for a kernel that has none.
    """
    name, all = function_of(kernel, "configs").__name__, configs_of(kernel)
    if not all:
        raise CourseError(f"{name} is not under @triton.autotune: it has no configurations.")
    args, kwargs = without_grid(args, kwargs)
    compiled = []
    for number, config in enumerate(all):
        try:
            lowered = lower(kernel, *args, target=target, **kwargs | {"config": config})
            compiled.append(Configuration(number, config, lowered.resources))
        except LowerError as error:
            compiled.append(Configuration(number, config, None, str(error)))
    return Configurations(compiled)


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

    Raises CourseError for arguments that do not fit the kernel, and for what is no target.
    """
    targets = [targets] if isinstance(targets, str) else targets
    if not targets:
        raise CourseError('compiles_for takes at least one target, as targets=["sm_90"].')
    return Compiles({name: _problem(kernel, args, kwargs, name) for name in targets})


def _problem(
    kernel: Kernel, args: tuple[AnyValue, ...], kwargs: dict[str, AnyValue], name: str
) -> str:
    try:
        lowered = lower(kernel, *args, target=name, **kwargs)
    except LowerError as error:
        if error.kind == "arguments":
            raise
        # What the compiler aborts on it does not explain.
        said = "" if error.kind == "crashed" else f": {str(error).splitlines()[0]}"
        return f"does not compile{said}"
    needs = lowered.resources
    if needs.shared_bytes > needs.most_shared_bytes:
        has = f"a program has {needs.most_shared_bytes:,}"
        return f"too large: {needs.shared_bytes:,} bytes of shared memory, and {has}"
    return ""
