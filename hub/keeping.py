"""What becomes of the work: `course workshop take-home` and `clear`."""

import os
import shutil
import tarfile
from pathlib import Path

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
            with tarfile.open(files[-1], "w:gz") as packed:
                for path in sorted(settings.home(name).iterdir()):
                    if path.name not in LEFT_OUT:
                        packed.add(path, f"{name}/{path.name}")
            os.chmod(files[-1], 0o600)
    return files


def clear(settings: Settings) -> None:
    """Delete everything of a room that does not run: work, codes, and what the hub keeps."""
    shutil.rmtree(settings.folder)
