"""Programs under Nsight Compute: what the GPU's own counters say of each launch.

    ncu … python -m tools.record.nsight MODULE

launches what the function `launches` of a module yields, under the profiler's eyes.
"""

import csv
import importlib
import shutil
import sys
from collections.abc import Sequence

import torch

from course.benching.api import require_gpu
from course.errors import CourseError
from course.isolate.commands import run_command

MOST_S = 500
"""Seconds on the clock after which the program is stopped."""


def counters(module: str, metrics: Sequence[str], launches: int) -> list[dict[str, float]]:
    """The metrics of each launch that a module has, in order.

    module: its name, as "tools.record.sectors". launches: how many it has. Values are in base
        units: nanoseconds, bytes, percent. A metric that the GPU has no number for is 0.

    Raises CourseError without a GPU, without `ncu`, or if it has not read so many launches.
    """
    require_gpu()
    ncu = shutil.which("ncu")
    if ncu is None:
        raise CourseError("Nsight Compute (ncu) is not on the path: it reads the GPU's counters.")
    options = ["--csv", "--clock-control", "none", "--profile-from-start", "off"]
    options += ["--print-units", "base", "--metrics", ",".join(metrics)]
    ended = run_command([ncu, *options, sys.executable, "-m", __name__, module], MOST_S)
    table = read(ended.stdout)
    if ended.how != "finished" or len(table) != launches:
        raise CourseError(
            f"Nsight Compute has read {len(table)} of {launches} launches. It said: "
            f"{(ended.stderr or ended.stdout)[-500:]}"
        )
    return table


def read(text: str) -> list[dict[str, float]]:
    """The metrics of each launch, in order, from Nsight Compute's table."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    launches: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(lines):
        number = row["Metric Value"].replace(",", "")
        value = float(number) if number.replace(".", "", 1).isdigit() else 0.0
        launches.setdefault(row["ID"], {})[row["Metric Name"]] = value
    return list(launches.values())


def _launch_all(module: str) -> None:
    """Launch each twice, the second time under the profiler's eyes: the first compiles it."""
    for launch in importlib.import_module(module).launches():
        launch()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        launch()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()


if __name__ == "__main__":
    _launch_all(sys.argv[1])
