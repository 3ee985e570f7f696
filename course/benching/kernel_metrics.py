"""What Nsight Compute says of a slow kernel and of those that it was mended to, as recorded."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from course.gpus.recorded import Recorded
from course.tracing.result import Cost

from .result import FOLDER

FILE = FOLDER / "observed" / "ncu.json"
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
BESIDE = ("time without the profiler, us", "what must move in that time, TB/s")


@dataclass(frozen=True, repr=False)
class KernelMetrics(Recorded):
    """The metrics of several launches that do the same, on one machine. Prints as a table."""

    launches: dict[str, dict[str, float]]
    """Launch -> metric -> value, in Nsight Compute's names and base units."""
    us: dict[str, float]
    """Launch -> median time in microseconds in the same run, without the profiler."""
    bytes: int
    """What each launch must move: its input read once, its output written once."""

    def timed(self, costs: Mapping[str, Cost]) -> dict[str, Cost]:
        """What `cost` counted for some of the launches, with the times that were measured here.

        Raises KeyError for a launch that was not recorded.
        """
        return {name: replace(cost, measured_us=self.us[name]) for name, cost in costs.items()}

    def __str__(self) -> str:
        names = list(self.launches)
        labels = METRICS | SECTORS
        width = max(map(len, [*labels.values(), *BESIDE]))
        rows = ["  ".join([" " * width, *(f"{name:>18}" for name in names)])]
        for metric, label in labels.items():
            cells = [_cell(metric, self.launches[name][metric]) for name in names]
            rows.append("  ".join([f"{label:{width}}", *(f"{cell:>18}" for cell in cells)]))
        times = [f"{self.us[name]:.0f}" for name in names]
        speeds = [f"{self.bytes / self.us[name] / 1e6:.2f}" for name in names]
        for label, cells in zip(BESIDE, (times, speeds), strict=True):
            rows.append("  ".join([f"{label:{width}}", *(f"{cell:>18}" for cell in cells)]))
        return "\n".join([*rows, self.source])


def _cell(metric: str, value: float) -> str:
    if metric in SECTORS:
        return f"{value:,.0f}"
    return f"{value / 1e3:.0f}" if metric == TIME else f"{value:.0f}%"


def kernel_metrics() -> KernelMetrics:
    """The recorded metrics of a softmax down the columns: slow, with spills, and mended."""
    return KernelMetrics.from_json(FILE.read_text())
