"""Verify, time and write down, on a GPU, what the lessons show as recorded: `make record`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import get_type_hints

import torch

from course import MODE, pins
from course.benching import result
from course.benching.api import require_gpu
from course.benching.benchmarks import Operation, Study, operation, operation_names
from course.benching.launch_costs import measure_launches
from course.benching.observed import observe
from course.benching.outdated import TIMED
from course.benching.result import Speeds
from course.benching.run_study import run_study
from course.benching.source_hash import code_hash
from course.errors import CourseError
from course.files import write_whole
from course.gpus import measured
from course.gpus.recorded import EARLIER, Recorded
from course.verifying.api import verify

from . import (
    attention_power,
    attention_timeline,
    gpu_reports,
    kernel_metrics,
    sanitizers,
    sectors,
    step_profile,
    training,
)
from .ahead import compile_ahead

OBSERVED: dict[str, Callable[[], Recorded]] = {
    "attention_power": attention_power.measure,
    "attention_timeline": attention_timeline.measure,
    "programs": observe,
    "sectors": sectors.measure,
    "launches": measure_launches,
    "ncu": kernel_metrics.measure,
    "profile": step_profile.measure,
    "reports": gpu_reports.measure,
    "sanitizers": sanitizers.measure,
    "training": training.measure,
}
"""Name -> what measures it. What a machine cannot measure is said, and stays as it was."""
GPU = "gpu"
"""The name of the GPU's own facts."""


@dataclass(frozen=True)
class Entry:
    """One file of what is recorded."""

    name: str
    group: str
    """The operation that a study belongs to; else the name again."""
    path: Path
    measure: Callable[[], Recorded]
    study: Study | None = None

    def debt(self) -> str | None:
        """Why it is to be recorded anew, behind its name; None where it need not be."""
        if not self.path.is_file():
            return "is not recorded"
        kind = Speeds if self.study else get_type_hints(self.measure)["return"]
        record: Recorded = kind.from_json(self.path.read_text())
        if record.outdated:
            return f"was {EARLIER}"
        if isinstance(record, Speeds) and self.study and not _covers(record, self.study):
            return "was recorded with other series or sizes than its study has"
        if (record.machine.triton, record.machine.pinned_torch) != (pins.TRITON, pins.TORCH):
            versions = f"Triton {pins.TRITON} and PyTorch {pins.TORCH}"
            return f"was recorded before the course pinned {versions}"
        return None


def _covers(record: Speeds, study: Study) -> bool:
    """Whether a record has the series of a study, and the first of them at every size."""
    first = [timing.x for timing in record.of(record.series[0])]
    return (record.series, first) == (list(study.series), list(study.xs))


def entries(folder: Path | None = None) -> list[Entry]:
    """All that is recorded, in the order in which it is measured.

    folder: where the files are, in place of the course's own folders.
    """
    speeds = folder or result.FOLDER
    gpu = torch.cuda.get_device_name() if MODE.gpu else measured.SHOWN_WITHOUT_GPU
    facts = (folder / "gpus" if folder else measured.FOLDER) / measured.file_name(gpu)
    studies = [
        Entry(study.name, owner.name, speeds / f"{study.name}.json", measure, study)
        for owner in map(operation, operation_names())
        for study, measure in _measures(owner)
    ]
    observed = [
        Entry(name, name, speeds / "observed" / f"{name}.json", measure)
        for name, measure in OBSERVED.items()
    ]
    return [*studies, Entry(GPU, GPU, facts, measured.measure_gpu), *observed]


def _measures(owner: Operation) -> Iterator[tuple[Study, Callable[[], Speeds]]]:
    """What times each study of an operation, whose versions are all verified before the first."""

    @cache
    def refuse_mistakes() -> None:
        for version in owner.ladder.values():
            verified = verify(version, owner.reference, owner.cases, absolute=owner.absolute)
            if not verified.right:
                raise CourseError(f"Nothing was recorded, since a version is wrong. {verified}")

    def measure(study: Study) -> Speeds:
        refuse_mistakes()
        return run_study(study, code_hash(TIMED[owner.name]), owner.first_call)

    for study in owner.studies:
        yield study, partial(measure, study)


def debts() -> list[str]:
    """What is to be recorded anew on a GPU, a sentence each, with the command that does so."""
    reasons = ((entry.name, entry.debt()) for entry in entries())
    return [f"{name} {why}: `python -m {__name__} {name}` on a GPU" for name, why in reasons if why]


def record(names: Sequence[str], folder: Path | None = None, everything: bool = False) -> list[str]:
    """Measure and write down, on a GPU, what is missing or outdated; return what failed, a sentence
    each.

    Each file is written as soon as it is measured, so that a run that was cut short goes on from
    there. names: operations, studies and what OBSERVED names, to be recorded anew whether they are
    outdated or not. folder: where to write in place of the course's own folders. everything: what
    is up to date too.

    Raises CourseError in CPU mode, and for a name that is not known.
    """
    require_gpu()
    all_of_it = entries(folder)
    known = {name for entry in all_of_it for name in (entry.name, entry.group)}
    if unknown := [name for name in names if name not in known]:
        raise CourseError(
            f"Nothing is recorded under {unknown[0]!r}: there is {', '.join(sorted(known))}."
        )
    due = [
        entry
        for entry in all_of_it
        if everything or {entry.name, entry.group} & set(names) or (not names and entry.debt())
    ]
    print("To be measured:", ", ".join(entry.name for entry in due) or "nothing", flush=True)
    compile_ahead([entry.study for entry in due if entry.study])
    failed = []
    for entry in due:
        try:
            measured_now = entry.measure()
        except CourseError as error:  # a wrong version; or no right to a GPU's counters
            failed.append(f"{entry.name}: {error}")
            print(failed[-1], end="\n\n", flush=True)
            continue
        write_whole(entry.path, measured_now.to_json())
        print(measured_now, entry.path, sep="\n", end="\n\n", flush=True)
    return failed
