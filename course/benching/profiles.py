"""What profilers, checkers and sensors said of kernels on a GPU, as recorded."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from course.errors import CourseError
from course.gpus.recorded import Recorded
from course.table import numbers

from .outdated import has_changed
from .result import observation

if TYPE_CHECKING:
    from course.tracing.result import Cost

TIME = "gpu__time_duration.sum"
METRICS = {
    TIME: "time, us",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "memory, % of its peak",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": "L2 cache, % of its peak",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "multiprocessors, % of their peak",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps there, % of those that fit",
}
"""The five to look at first, and how they are shown. The time is in nanoseconds."""
SECTORS = {
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "sectors loaded",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": "sectors stored",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": "sectors of spills, loaded",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum": "sectors of spills, stored",
}
"""What `cost` counts, by the GPU's own counters, and what moves because registers are short."""


@dataclass(frozen=True, repr=False)
class KernelMetrics(Recorded):
    """The metrics of several launches that do the same, on one machine. Prints as a table."""

    launches: dict[str, dict[str, float]]
    """Launch -> metric -> value, in Nsight Compute's names and base units."""
    us: dict[str, float]
    """Launch -> median time in microseconds in the same run, without the profiler."""
    bytes: int
    """What each launch must move: its input read once, its output written once."""

    def timed(self, costs: Mapping[str, "Cost"]) -> dict[str, "Cost"]:
        """What `cost` counted for some of the launches, with the times that were measured here.

        Raises KeyError for a launch that was not recorded.
        """
        return {name: replace(cost, measured_us=self.us[name]) for name, cost in costs.items()}

    def __str__(self) -> str:
        rows = [["", *self.launches]]
        for metric, label in (METRICS | SECTORS).items():
            values = (launch[metric] for launch in self.launches.values())
            rows.append([label, *(_metric_text(metric, value) for value in values)])
        times = [self.us[name] for name in self.launches]
        rows.append(["time without the profiler, us", *(f"{us:.0f}" for us in times)])
        speeds = (f"{self.bytes / us / 1e6:.2f}" for us in times)
        rows.append(["what must move in that time, TB/s", *speeds])
        return f"{numbers(rows, least=18)}\n{self.source}"


def _metric_text(metric: str, value: float) -> str:
    if metric in SECTORS:
        return f"{value:,.0f}"
    return f"{value / 1e3:.0f}" if metric == TIME else f"{value:.0f}%"


def kernel_metrics() -> KernelMetrics:
    """The recorded metrics of a softmax down the columns: slow, with spills, and mended."""
    return observation(KernelMetrics, "ncu")


@dataclass(frozen=True)
class Load:
    """One way to compute the same attention: what its kernel does, and how it runs in a row."""

    cycles: int
    """From the first program's start to the last one's end, in one launch by itself."""
    instructions: int
    """Instructions that all warps of that launch execute."""
    tensor_percent: float
    """Percent of the cycles of a working multiprocessor in which its tensor cores work."""
    ms: float
    """Milliseconds per launch, while launches follow each other for a second and more."""
    mhz: float
    """Clock of the multiprocessors during these launches."""
    watts: float
    """Power of the card during these launches."""


LOAD_ROWS = {
    "cycles": ("cycles, by itself", "{:,}"),
    "instructions": ("instructions of warps", "{:,}"),
    "tensor_percent": ("tensor cores at work", "{:.0f}%"),
    "ms": ("in a row: ms", "{:.3f}"),
    "mhz": ("clock, MHz", "{:,.0f}"),
    "watts": ("power, W", "{:.0f}"),
}
"""Field of a Load -> its label in the table, and how its value is written."""


@dataclass(frozen=True, repr=False)
class AttentionPower(Recorded):
    """What attention with large heads costs in power, and the clock that is left to it: without a
    mask, in float16, on random numbers. Prints as a table."""

    source_hash: str
    """The hash of the kernel that was run; see `course.benching.source_hash`."""
    head_dim: int
    length: int
    """Queries, and keys."""
    heads: int
    """Heads of all batches."""
    loads: dict[str, Load]

    @property
    def outdated(self) -> bool:
        return self.recorded and has_changed("attention_power", self.source_hash)

    def __str__(self) -> str:
        rows = [["", *self.loads]]
        for field, (label, form) in LOAD_ROWS.items():
            rows.append([label, *(form.format(getattr(x, field)) for x in self.loads.values())])
        return f"{numbers(rows, least=15)}\n{self.source}"


def attention_power() -> AttentionPower:
    """The recorded power of attention. Raises CourseError where none is recorded."""
    return observation(AttentionPower, "attention_power")


@dataclass(frozen=True)
class Node:
    """A scope, or a kernel: the leaves are kernels."""

    name: str
    us: float
    """The GPU's time for one step, in microseconds: its own, or that of all below it."""
    launches: float
    """Launches in one step: its own, or those of all below it."""
    children: tuple["Node", ...] = ()

    def rows(self, whole: float, depth: int = 0) -> Iterator[str]:
        """This node and all below it, the longest first, a line each.

        whole: the time of the step, in microseconds.
        """
        name = "    " * depth + self.name
        yield f"{self.us:9,.0f} us {self.us / whole:5.0%} {self.launches:4.0f} x  {name}"
        for child in sorted(self.children, key=lambda child: -child.us):
            yield from child.rows(whole, depth + 1)

    def at(self, *names: str) -> "Node":
        """The node below this one along these names. Raises KeyError where there is none."""
        node = self
        for name in names:
            node = {child.name: child for child in node.children}[name]
        return node


@dataclass(frozen=True, repr=False)
class StepProfile(Recorded):
    """The kernels of a training step as Proton sees them: one step in several versions, on one
    machine. Prints as trees."""

    steps: dict[str, Node]
    """Version -> its tree."""

    def __str__(self) -> str:
        return "\n\n".join([*map(self.tree, self.steps), self.source])

    def tree(self, version: str) -> str:
        """One version's tree as text."""
        step = self.steps[version]
        return "\n".join([version, *step.rows(step.us)])


def step_profile() -> StepProfile:
    """The recorded profile of a training step, as it was written first and as it was mended."""
    return observation(StepProfile, "profile")


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
    """What a GPU, its driver and checkers said of kernels that are wrong, in one run."""

    reports: dict[str, Report]
    """What is wrong with the kernel -> the report."""

    def __str__(self) -> str:
        texts = (f"{name}\n{report}" for name, report in self.reports.items())
        return "\n\n".join([*texts, self.source])


def gpu_report(name: str) -> Report:
    """One recorded report, as gpu_report("out of bounds, checked").

    Raises CourseError naming what there is where nothing of that name was recorded.
    """
    recorded = (observation(Reports, each).reports for each in ("reports", "sanitizers"))
    reports = {name: report for each in recorded for name, report in each.items()}
    if name not in reports:
        raise CourseError(f"There is no report {name!r}: there is {', '.join(map(repr, reports))}.")
    return reports[name]
