"""What becomes of the learners' work: `course workshop take-home` and `clear`."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, BinaryIO

from course.errors import CourseError

from .fix import printable
from .settings import Settings

LEFT_OUT = {".cache", ".ipython", ".local", ".jupyter", ".run", "lost+found", "docs", "kernels",
            "notebooks", "solutions"}  # fmt: skip
"""What a seat's folder has beside the learner's work."""


def take_home(settings: Settings, out: Path) -> list[Path]:
    """Pack each seat's work into one file, for its learner; the files, in a folder."""
    out.mkdir(parents=True, exist_ok=True)
    files = []
    for name in settings.names:
        if (settings.home(name) / "work").is_dir():
            files.append(out / f"{name}.tar.gz")
            with files[-1].open("wb") as file:
                os.fchmod(file.fileno(), 0o600)
                _pack(settings, name, file)
    return files


def _pack(settings: Settings, name: str, file: BinaryIO) -> None:
    """Write a seat's work into a file, as the seat's own user: its learner, who may be there still,
    could put a link to somebody else's file in the place of one that is about to be read.

    Raises CourseError where not all of it could be read.
    """
    home, user = settings.home(name), settings.user(name)
    kept = sorted(each for each in os.listdir(home) if each not in LEFT_OUT)
    # Holes stay holes: a file of a terabyte may be nothing else.
    command = ["tar", "--create", "--gzip", "--sparse", f"--transform=flags=r;s,^\\./,{name}/,"]
    account: dict[str, Any] = {"user": user, "group": user, "extra_groups": []}
    ended = subprocess.run(
        [*command, "--", *(f"./{each}" for each in kept)],
        cwd=home, stdout=file, stderr=subprocess.PIPE, **(account if settings.apart else {}),
    )  # fmt: skip
    if ended.returncode > 1:  # 1: a file changed meanwhile
        said = ended.stderr.decode(errors="replace").strip()
        raise CourseError(f"The work of {name} could not be packed whole ({printable(said)}).")


def clear(settings: Settings) -> None:
    """Delete everything of a room that does not run: work, codes, and what the hub keeps."""
    shutil.rmtree(settings.folder)
