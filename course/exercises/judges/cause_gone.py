"""Whether mended code still has the cause that its exercise is about, as `diagnose` counts it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from course.errors import CourseError
from course.exercises.result import Judged, wrong
from course.type_names import Kernel

TARGET = "H200"


@dataclass(frozen=True)
class CauseGone:
    """Objects to a kernel in which `diagnose` still finds one of `causes`."""

    causes: tuple[str, ...]
    """Names that findings have, as "sectors"."""
    grid: tuple[int, ...]
    args: Callable[[], tuple[Any, ...]]
    """Makes what the kernel is launched with: tensors on "meta", and numbers."""
    settings: dict[str, int] = field(default_factory=dict)
    """Its constants and options."""

    def __call__(self, kernel: Kernel) -> Judged | None:
        from course.diagnosing.api import diagnose  # it loads the compiler's side

        try:
            found = diagnose(kernel, self.grid, *self.args(), target=TARGET, **self.settings)
        except CourseError as error:
            text = f"the launch that counts could not be diagnosed: {error}"
            return wrong("not diagnosed", text)
        for finding in found.findings:
            if finding.cause in self.causes:
                place = f"line {finding.line}, " if finding.line else ""
                text = f"the cause is still there: {place}{finding.what}."
                return wrong(f"still {finding.cause}", text)
        return None
