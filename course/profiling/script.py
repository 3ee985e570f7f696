"""A script of the reader's under `profile`, in a process of its own.

That process shows the profile when the script has ended, however it ends: by its last line, by an
error, by sys.exit or os._exit. What it launches is noted in a journal too, from which the process
that started it tells what was seen if the other one was killed.
"""

import contextlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from course import MODE
from course.errors import CourseError
from course.lowering.gpu_stand_in import gpu_stand_in
from course.lowering.kernel_reference import SM_90
from course.table import numbers
from course.triton_internals.patching import patched

from .api import profile
from .result import Profile
from .seen import Kind

JOURNAL_S = 1.0
"""How often the journal counts anew."""


class Wanted(msgspec.Struct, frozen=True):
    """What `course profile` was asked for."""

    script: str
    arguments: list[str]
    html: str = ""
    json: str = ""
    against: str = ""
    target: str | None = None
    run: bool = True
    data: bool = False


def profile_script(wanted: Wanted) -> int:
    """Run a script and show its profile; returns what the script exits with.

    Raises CourseError if there is no such script.
    """
    if not Path(wanted.script).is_file():
        raise CourseError(f"There is no file {wanted.script}.")
    with tempfile.TemporaryDirectory(prefix="course-profile-") as folder:
        journal = Path(folder) / "journal"
        command = [sys.executable, "-m", "course.profiling.script", msgspec.json.encode(wanted).decode(), str(journal)]
        ended = subprocess.run(command)
        if not journal.exists() or "ended" not in journal.read_text():
            print(_from_journal(journal, ended.returncode))
    return ended.returncode if ended.returncode >= 0 else 128 - ended.returncode


def _from_journal(journal: Path, code: int) -> str:
    """What is known of a script whose process has not come to its end."""
    how = f"was killed by signal {-code}" if code < 0 else f"was ended from outside ({code})"
    seen: dict[int, dict[str, Any]] = {}
    lines = journal.read_text().splitlines() if journal.exists() else []
    for line in lines:
        with contextlib.suppress(ValueError):  # the last one may be half
            for number, each in enumerate(json.loads(line)):
                seen[number] = each
    rows = [(*map(str, each.values()),) for each in seen.values()]
    head = ("kernel", "launches", "line")
    return "\n".join([
        numbers([head, *rows], cell=str.ljust) if rows else "No kernel was launched through Triton.",
        f"note: The script's process {how}: no time was measured and nothing was counted, and of its"
        " last second the launches may be missing.",
    ])  # fmt: skip


class _Journal:
    """Writes down what was seen so far: at each new kernel, and from time to time."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w")
        self._kinds: list[Kind] = []
        self._ended = threading.Event()
        threading.Thread(target=self._go_on, daemon=True).start()

    def new(self, kind: Kind) -> None:
        if kind not in self._kinds:
            self._kinds.append(kind)
        self._write()

    def _go_on(self) -> None:
        while not self._ended.wait(JOURNAL_S):
            self._write()

    def _write(self) -> None:
        known = [
            {"kernel": each.name, "launches": each.launches,
             "line": str(each.path[-1]) if each.path else ""}
            for each in [*self._kinds]
        ]  # fmt: skip
        self._file.write(json.dumps(known) + "\n")
        self._file.flush()

    def end(self) -> None:
        self._ended.set()
        self._file.write("ended\n")
        self._file.close()


def main(wanted: Wanted, path: Path) -> int:
    """In the script's own process: run it, and show what was seen."""
    journal, own, own_exit, code = _Journal(path), os.getpid(), os._exit, 0
    watched = contextlib.ExitStack()
    result = watched.enter_context(profile(wanted.run, wanted.data, wanted.target, journal.new))

    def show() -> None:
        watched.close()
        _show(result, wanted)
        journal.end()

    def exit_at_once(status: int) -> NoReturn:
        if os.getpid() == own:  # and not a process that it has forked
            result.notes.append("The script called os._exit.")
            show()
            sys.stdout.flush()
        own_exit(status)

    sys.argv = [wanted.script, *wanted.arguments]
    sys.path[0] = str(Path(wanted.script).resolve().parent)
    with patched(os, _exit=exit_at_once), _gpu_answers():
        try:
            runpy.run_path(wanted.script, run_name="__main__")
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
            if code:
                result.notes.append(f"The script exited with {error.code!r}.")
        except BaseException as error:
            traceback.print_exc()
            code = 1
            result.notes.append(f"The script failed with {type(error).__name__}: {error}.")
        for thread in threading.enumerate():  # as Python waits for them at its end
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
    show()
    return code


def _gpu_answers() -> contextlib.AbstractContextManager[None]:
    """Without a GPU, what packages ask of one while they are imported is answered."""
    return contextlib.nullcontext() if MODE.gpu else gpu_stand_in(SM_90, available=False)


def _show(result: Profile, wanted: Wanted) -> None:
    print(f"\n{result}")
    if wanted.against:
        print(f"\nAgainst {wanted.against}:\n{result.against(wanted.against)}")
    for path, write in ((wanted.html, result.to_html), (wanted.json, result.to_json)):
        if path:
            print(write(path))


if __name__ == "__main__":
    sys.exit(main(msgspec.json.decode(sys.argv[1], type=Wanted), Path(sys.argv[2])))
