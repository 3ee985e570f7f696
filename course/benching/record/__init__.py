"""`make record`: verify, time and write down, on a GPU, what the lessons show as recorded."""

from collections.abc import Callable, Iterator
from pathlib import Path

from course.benching import result
from course.benching.api import require_gpu
from course.benching.benchmarks import Operation, operation, operation_names
from course.benching.gpu_experiments import observe
from course.benching.launch_costs import measure_launches
from course.benching.result import Speeds
from course.benching.run_study import run_study
from course.errors import CourseError
from course.files import write_whole
from course.gpus import measured
from course.gpus.recorded import Recorded
from course.verifying.api import verify

from . import (
    attention_power,
    attention_timeline,
    gpu_reports,
    kernel_metrics,
    ncu_counters,
    step_profile,
)
from .source_hash import code_hash

OBSERVED: dict[str, Callable[[], Recorded]] = {
    "attention_power.json": attention_power.measure,
    "attention_timeline.json": attention_timeline.measure,
    "programs.json": observe,
    "sectors.json": ncu_counters.compare,
    "launches.json": measure_launches,
    "ncu.json": kernel_metrics.measure,
    "profile.json": step_profile.measure,
    "reports.json": gpu_reports.measure,
}
"""File -> what measures it. What a machine cannot measure is said, and stays as it was."""


def record(operation: Operation) -> Iterator[Speeds]:
    """Verify every version of an operation; then run study after study, with the hash of its code.

    A study runs when it is asked for. Raises CourseError in CPU mode, and where the operation is
    wrong: then nothing is timed.
    """
    require_gpu(operation.name)
    for version in operation.ladder.values():
        verified = verify(
            version, operation.reference, operation.cases, absolute=operation.absolute
        )
        if not verified.right:
            raise CourseError(f"Nothing was recorded, since a version is wrong. {verified}")
    source_hash = code_hash(operation.ladder.values())
    return (run_study(study, source_hash, operation.first_call) for study in operation.studies)


def record_all(names: list[str], folder: Path | None = None) -> list[Path]:
    """Record operations, the GPU's facts and what its programs did; return the files.

    Each study is written as soon as it is measured, so that a run cut short keeps those before.
    names: all operations where none is named. folder: where to write in place of the course's own
    folders.

    Raises CourseError in CPU mode, and where an operation is not right.
    """
    require_gpu()
    speeds_folder = folder or result.FOLDER
    files = []
    for name in names or operation_names():
        for speeds in record(operation(name)):
            print(speeds, end="\n\n")
            files.append(_write(speeds_folder / f"{speeds.name}.json", speeds.to_json()))
    facts = measured.measure_gpu()
    print(facts)
    facts_folder = folder / "gpus" if folder else measured.FOLDER
    files.append(_write(facts_folder / measured.file_name(facts.machine.gpu), facts.to_json()))
    for file, measure in OBSERVED.items():
        try:
            observed = measure()
        except CourseError as error:  # no right to a GPU's counters, or no C compiler
            print(error)
            continue
        print(observed)
        files.append(_write(speeds_folder / "observed" / file, observed.to_json()))
    return files


def _write(path: Path, text: str) -> Path:
    write_whole(path, text)
    return path
