"""What a GPU, its driver and NVIDIA's checker say of kernels that are wrong, as recorded."""

from dataclasses import dataclass

from course.errors import CourseError
from course.gpus.recorded import Recorded

from .result import FOLDER

FILE = FOLDER / "observed" / "reports.json"


@dataclass(frozen=True)
class Report:
    """One program, what it printed, and how it ended. Prints as a shell would show it."""

    command: str
    """What was typed, with its environment and the tool in front."""
    said: str
    """Its output and its errors, without the lines that name Python's own files."""
    ended: str
    """How it ended, as a clause: "it finished", "it was stopped after 10 s"."""

    def __str__(self) -> str:
        return f"$ {self.command}\n{self.said}\n({self.ended})"

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class Reports(Recorded):
    """The reports of one run on one machine, by what is wrong with the kernel."""

    reports: dict[str, Report]

    def __str__(self) -> str:
        texts = (f"{name}\n{report}" for name, report in self.reports.items())
        return "\n\n".join([*texts, self.source])


def gpu_report(name: str) -> Report:
    """One recorded report, as gpu_report("out of bounds, checked").

    Raises CourseError naming what there is where nothing of that name was recorded.
    """
    reports = Reports.from_json(FILE.read_text()).reports
    if name not in reports:
        raise CourseError(f"There is no report {name!r}: there is {', '.join(map(repr, reports))}.")
    return reports[name]
