"""`make record`: verify, time and write down, on a GPU, what the lessons show as recorded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from course.errors import CourseError
from course.files import write_whole
from course.gpus.measured import file_name, measure_gpu

from . import ncu_counters as counters
from . import result as records
from .api import record, require_gpu
from .gpu_experiments import observe
from .launch_overhead import measure_launches
from .studies import operation, operation_names

OBSERVED: dict[str, Callable[[], Any]] = {
    "programs.json": observe,
    "sectors.json": counters.compare,
    "launches.json": measure_launches,
}
"""File -> what measures it. What cannot be measured on a machine is said, and stays as it was."""


def record_all(wanted: list[str], folder: Path = records.FOLDER) -> list[Path]:
    """Record these operations (all where none is named), the GPU's facts and what its programs did; return the files.

    Each study is written as soon as it is measured, so that a run cut short keeps those before.
    Raises CourseError in CPU mode, and where an operation is not right.
    """
    require_gpu()
    written = []
    for name in wanted or operation_names():
        for speeds in record(operation(name)):
            print(speeds, end="\n\n")
            written.append(_write(folder / f"{speeds.name}.json", speeds.to_json()))
    facts = measure_gpu()
    print(facts)
    written.append(_write(folder / "gpus" / file_name(facts.machine.gpu), facts.to_json()))
    for name, measure in OBSERVED.items():
        try:
            seen = measure()
        except (
            CourseError
        ) as error:  # a GPU's counters may be kept from its users; a C compiler may be missing
            print(error)
            continue
        print(seen)
        written.append(_write(folder / "observed" / name, seen.to_json()))
    return written


def _write(path: Path, text: str) -> Path:
    write_whole(path, text)
    return path
