"""What a task has imported of installed packages and of the course: its worker imports it too,
for all to come.

A task says at its end what it has imported. The worker does so only where that started no thread
and no CUDA there, and not from a learner's own files, which change with every cell. A worker whose
files have changed since is not asked again.
"""

import contextlib
import gc
import importlib
import itertools
import os
import site
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

COURSE = Path(__file__).resolve().parents[1]
INSTALLED = tuple(
    f"{os.path.realpath(folder)}{os.sep}"
    for folder in {
        *map(sysconfig.get_path, ("purelib", "platlib")),
        site.getusersitepackages(),
        str(COURSE),
        str(COURSE.parent / "kernels"),
    }
)
"""Folders of installed packages, and the course's own, which need not be among them."""
READ_LATER = ("TMPDIR", "TMP", "TEMP", "PWD", "OLDPWD", "PYTEST_CURRENT_TEST", "COURSE_DATA")
"""Variables that modules do not read while they are imported, with those of caches' folders."""


def imported_since(count: int) -> list[str]:
    """What this task has imported of `INSTALLED` since there were `count` modules, if its worker
    may import it."""
    # Only the last ones: to look at a name writes to its page, which makes a copy for the task.
    last = [*itertools.islice(reversed(sys.modules), max(0, len(sys.modules) - count))]
    installed = [name for name in last if _file_of(name)]
    if not installed or len(os.listdir("/proc/self/task")) > 1:
        return []
    return [] if "/libcuda.so" in Path("/proc/self/maps").read_text() else installed


def _file_of(name: str) -> str:
    """Where an installed module was read from; empty for others."""
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    return file if is_installed(file) else ""


def is_installed(path: str) -> bool:
    """Whether a file or folder lies in one of `INSTALLED`."""
    return f"{os.path.realpath(path)}{os.sep}".startswith(INSTALLED)


class Preloaded:
    """What a worker has imported for its tasks."""

    def __init__(self) -> None:
        self._read: dict[str, int] = {}
        """The files that were read, and when each was changed last."""
        self._environ: dict[str, str] = {}
        self._tried: set[str] = set()

    def load(self, names: Iterable[str], environ: dict[str, str], path: list[str]) -> None:
        """Import modules as a task with these variables would, and those folders of its path in
        which packages are installed."""
        new = sorted({*names} - self._tried)
        if not new:
            return
        self._tried |= {*new}
        self._environ = _read_at_import(environ)
        own, own_path, before = dict(os.environ), list(sys.path), {*sys.modules}
        try:
            os.environ |= environ
            sys.path += [folder for folder in path if is_installed(folder)]
            for name in new:
                with contextlib.suppress(BaseException):  # it fails in the task as well
                    importlib.import_module(name)
        finally:
            sys.path[:] = own_path
            os.environ.clear()
            os.environ.update(own)
        gc.freeze()  # what was imported stays: no task's collector looks through it
        for file in filter(None, map(_file_of, {*sys.modules} - before)):
            self._read[file] = _changed(file)

    def is_stale(self, environ: dict[str, str]) -> bool:
        """Whether a task would import something else: a file or a variable has changed."""
        if not self._read:
            return False
        changed = any(_changed(file) != when for file, when in self._read.items())
        return changed or _read_at_import(environ) != self._environ


def _read_at_import(environ: dict[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name not in READ_LATER and not name.endswith("_CACHE_DIR")
    }


def _changed(file: str) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0
