"""configs: what each configuration of `@triton.autotune` takes of a GPU."""

from dataclasses import dataclass

import triton

from course.errors import CourseError
from course.table import columns
from course.triton_internals.choices import config_text, configs_of
from course.type_names import AnyValue, Kernel

from .api import lower
from .kernel_reference import function_of
from .occupancy import Resources
from .problems import LowerError
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
