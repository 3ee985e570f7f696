"""Fetch the wheels of test_published.py's kernels: `python -m tests.kernels.published.fetch`.

They go into build/, which is never committed. Only the files of a wheel that launches.py names are
unpacked, without any `__init__.py` that would import the whole package.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from .launches import PACKAGES, Package

FOLDER = Path(__file__).parents[3] / "build" / "published"
TIMEOUT_S = 120
"""For the largest, of 3 MB."""


class NotFetchedError(Exception):
    """A package that is not here and could not be had; says which and why."""


def wheel(package: Package, folder: Path = FOLDER) -> Path:
    """The package's wheel, downloaded where it is not there yet. Raises NotFetchedError."""
    for path in folder.glob("*.whl"):
        if _hash(path) == package.sha256:
            return path
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as new:
        pinned = f"{package.name}=={package.version}"
        options = [
            "--no-deps",
            "--only-binary=:all:",
            "--retries=0",
            "--timeout=15",
            "--disable-pip-version-check",
            "-q",
        ]
        command = [sys.executable, "-m", "pip", "download", *options, "-d", new, pinned]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise NotFetchedError(
                f"{pinned} was not fetched: it took more than {TIMEOUT_S} s"
            ) from None
        wheels = [path for path in Path(new).iterdir() if _hash(path) == package.sha256]
        if not wheels:
            said = [line for line in ended.stderr.splitlines() if line.startswith("ERROR")][:1]
            raise NotFetchedError(
                f"{pinned} was not fetched: {' '.join(said) or 'what came has another hash'}"
            )
        return wheels[0].replace(folder / wheels[0].name)


def unpack(package: Package, wheel: Path, folder: Path) -> None:
    """The package's files that its kernels need, below a folder that belongs onto sys.path."""
    with zipfile.ZipFile(wheel) as archive:
        for file in package.files:
            archive.extract(file, folder)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    for each in PACKAGES:
        print(wheel(each))
