"""One kernel compiled by several Tritons, each in a folder of its own beside PyTorch."""

import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course.cache import cache_folder, private_folder
from course.errors import CourseError
from course.lowering.passes import without_locations
from course.progress_bar import track
from course.table import numbers

STAGES = ("ttir", "ttgir", "llir", "ptx", "amdgcn")
INSTALL_S, COMPILE_S = 600, 300


@dataclass(frozen=True)
class ByTriton:
    """A kernel as one Triton has compiled it."""

    version: str
    summary: dict[str, Any]
    """As `Lowered.summary` has it; empty where the kernel does not compile."""
    stages: dict[str, str]
    problem: str = ""


def compare(command: Sequence[str], versions: Sequence[str], stage: str = "") -> str:
    """What several Tritons make of one kernel, as text.

    command: what follows `course lower`. stage: one whose text is compared line by line.
    """
    if len(versions) < 2:
        raise CourseError("compare takes two versions or more, as in --triton 3.8.0 3.9.0.")
    made = [lowered_by(version, command) for version in track(versions, "Compiling the kernel")]
    rows = [("", *(each.version for each in made))]
    for words, *path in (
        ("registers", "resources", "registers"),
        ("bytes spilled", "resources", "spill_bytes"),
        ("shared bytes", "resources", "shared_bytes"),
        ("warps", "resources", "num_warps"),
        ("stages", "options", "num_stages"),
    ):
        rows.append((words, *(_at(each.summary, path) for each in made)))
    counted = dict.fromkeys(
        (name, what)
        for each in made
        for name, counts in each.summary.get("counts", {}).items()
        for what in counts
    )
    for name, what in counted:
        cells = [_at(each.summary, ("counts", name, what), "0") for each in made]
        if len({*cells}) > 1:
            rows.append((f"{name}: {what}", *cells))
    lines = [numbers(rows)]
    lines += [f"{each.version}: {each.problem}" for each in made if each.problem]
    first, last = made[0], made[-1]
    names = [name for name in STAGES if name in first.stages and name in last.stages]
    other = [name for name in names if first.stages[name] != last.stages[name]]
    if names:
        differs = f"differs from {other[0].upper()} on" if other else "is the same in every stage"
        lines.append(f"What {last.version} makes of it {differs}.")
    if stage in other:
        texts = (each.stages[stage].splitlines() for each in (first, last))
        lines += difflib.unified_diff(*texts, first.version, last.version, lineterm="")
    return "\n".join(lines)


def _at(summary: Any, path: Sequence[str], missing: str = "?") -> str:
    for name in path:
        summary = summary.get(name, {}) if isinstance(summary, dict) else {}
    return missing if summary == {} else f"{summary:,}" if isinstance(summary, int) else str(summary)


def lowered_by(version: str, command: Sequence[str]) -> ByTriton:
    """What `course lower` says with another Triton."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder_of(version)), *sys.path])}
    with tempfile.TemporaryDirectory(prefix="course-compare-") as folder:
        lower = [sys.executable, "-m", "course", "lower", *command, "--json", "--out", folder]
        try:
            ended = subprocess.run(
                lower, env=environ, capture_output=True, text=True, timeout=COMPILE_S
            )
        except subprocess.TimeoutExpired:
            return ByTriton(version, {}, {}, f"it had not compiled after {COMPILE_S} s")
        if ended.returncode:
            said = ended.stderr.strip().splitlines() or ["it ended without a word"]
            return ByTriton(version, {}, {}, said[-1].removeprefix("course: "))
        texts = {path.suffix[1:]: path for path in Path(folder).iterdir()}
        stages = {name: without_locations(texts[name].read_text()) for name in STAGES if name in texts}
    return ByTriton(version, json.loads(ended.stdout), stages)


def folder_of(version: str) -> Path:
    """The folder of a Triton, which is installed there first if it is not.

    Raises CourseError for what is no version, and where it cannot be had.
    """
    if not re.fullmatch(r"\d+(\.\d+)+(\.?\w+)?", version):
        raise CourseError(f"{version!r} is no version of Triton: write it as 3.8.0.")
    folder = private_folder(cache_folder()) / f"triton-{version}"
    if folder.is_dir():
        return folder
    with tempfile.TemporaryDirectory(dir=folder.parent) as new:
        into = ["--no-deps", "--target", new, f"triton=={version}"]
        uv = subprocess.run([sys.executable, "-m", "uv", "--version"], capture_output=True)
        pip = ["uv", "pip"] if uv.returncode == 0 else ["pip"]
        command = [sys.executable, "-m", *pip, "install", "-q", *into]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
        if ended.returncode:
            said = (ended.stderr.strip().splitlines() or [""])[-1]
            raise CourseError(f"Triton {version} could not be installed: {said}")
        os.chmod(new, 0o700)
        Path(new).rename(folder)
        Path(new).mkdir()  # which the temporary folder's end removes
    return folder
