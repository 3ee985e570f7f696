"""One kernel compiled by two Tritons, each in a folder of its own beside PyTorch."""

import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from course.cache import cache_folder, private_folder
from course.errors import CourseError
from course.progress_bar import track
from course.table import numbers

from .against import comparable

STAGES = ("ttir", "ttgir", "llir", "ptx", "amdgcn")


def compare(command: Sequence[str], versions: tuple[str, str], stage: str = "") -> str:
    """What two Tritons make of one kernel, as text.

    command: what follows `course lower`. stage: one whose text is compared line by line.
    Raises CourseError if there is no such stage, and if a Triton cannot be had or does not compile
    the kernel.
    """
    if stage and stage not in STAGES:
        raise CourseError(f"{stage!r} is no stage: --diff takes {', '.join(STAGES)}.")
    made = [_lowered(version, command) for version in track(versions, "Compiling the kernel")]
    (before, stages), (now, other_stages) = made
    rows: list[tuple[str, ...]] = [("", *versions)]
    counts = {name: {**before["counts"].get(name, {}), **now["counts"][name]} for name in STAGES
              if name in now["counts"]}  # fmt: skip
    for part, names in {"resources": before["resources"], **counts}.items():
        for name in names:
            found = [
                (each[part] if part == "resources" else each["counts"].get(part, {})).get(name, 0)
                for each in (before, now)
            ]
            if found[0] != found[1] or name in ("registers", "spill_bytes", "shared_bytes"):
                rows.append((f"{part}: {name.replace('_', ' ')}", *map(str, found)))
    differing = [name for name in stages if stages[name] != other_stages.get(name)]
    where = f"differs from {differing[0].upper()} on" if differing else "is the same in each stage"
    lines = [numbers(rows), f"What Triton {versions[1]} makes of it {where}."]
    if stage in differing:
        old, new = (each[stage].splitlines() for each in (stages, other_stages))
        lines += difflib.unified_diff(old, new, *versions, lineterm="")
    return "\n".join(lines)


def _lowered(version: str, command: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """What `course lower` says with one Triton, and its stages."""
    path = os.pathsep.join(filter(None, [str(folder_of(version)), *sys.path]))
    with tempfile.TemporaryDirectory(prefix="course-compare-") as folder:
        lower = [sys.executable, "-m", "course", "lower", *command, "--json", "--out", folder]
        environ = {**os.environ, "PYTHONPATH": path}
        ended = subprocess.run(lower, env=environ, capture_output=True, text=True)
        if ended.returncode:
            raise CourseError(f"Triton {version}: {ended.stderr.strip().removeprefix('course: ')}")
        files = {each.suffix[1:]: each for each in Path(folder).iterdir()}
        stages = {name: comparable(files[name].read_text()) for name in STAGES if name in files}
    return json.loads(ended.stdout), stages


def folder_of(version: str) -> Path:
    """The folder of a Triton, which is installed there first if it is not.

    Raises CourseError for what is no version, and where it cannot be had.
    """
    if not re.fullmatch(r"\d+(\.\d+)+\w*", version):
        raise CourseError(f"{version!r} is no version of Triton: write it as 3.8.0.")
    folder = private_folder(cache_folder()) / f"triton-{version}"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=folder.parent) as new:
            command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target"]
            ended = subprocess.run(
                [*command, f"{new}/triton", f"triton=={version}"],
                capture_output=True, text=True,
            )  # fmt: skip
            if ended.returncode:
                said = (ended.stderr.strip().splitlines() or [""])[-1]
                raise CourseError(f"Triton {version} could not be installed: {said}")
            (Path(new) / "triton").rename(folder)
    return folder
