"""A script of the reader's under `profile`, in a process of its own.

That process shows the profile when the script has ended, however it ends: by its last line, by an
error, by sys.exit or os._exit. It keeps a journal too, by which the process that started it tells
what was seen if it was killed.
"""

import concurrent.futures.thread
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
from typing import NoReturn

import msgspec

from course import MODE
from course.errors import CourseError
from course.files import write_whole
from course.gpus.peaks import gpu_of
from course.lowering.gpu_stand_in import gpu_stand_in
from course.lowering.kernel_reference import SM_90
from course.triton_internals.patching import patched

from .against import read_summary
from .api import profile
from .result import aligned
from .row import Row

JOURNAL_S = 1.0
"""How often the journal counts anew."""
POOLS_LOOP = concurrent.futures.thread._worker.__code__
"""In which a thread of a ThreadPoolExecutor waits for its next call."""
KILLED = (
    "note: The script's process ended by {}: nothing was timed or counted, and what it launched in "
    "its last second may be missing."
)


class Wanted(msgspec.Struct, frozen=True):
    """What `course profile` was asked for."""

    script: str
    arguments: list[str]
    html: str = ""
    json: str = ""
    against: str = ""
    target: str | None = None
    run: bool = True


def profile_script(wanted: Wanted) -> int:
    """Run a script and show its profile; returns what the script exits with.

    Raises CourseError if there is no such script or target, and if the profile to compare it with
    is none.
    """
    if not Path(wanted.script).is_file():
        raise CourseError(f"There is no file {wanted.script}.")
    # Before the script has run, which may take long.
    if wanted.target is not None:
        gpu_of(wanted.target)
    if wanted.against:
        read_summary(wanted.against)
    with tempfile.TemporaryDirectory(prefix="course-profile-") as folder:
        journal = Path(folder) / "journal"
        given = msgspec.json.encode(wanted).decode(), str(journal)
        code = subprocess.run([sys.executable, "-m", "course.profiling.script", *given]).returncode
        if journal.exists():  # it did not come to its end
            rows = [tuple(row) for row in json.loads(journal.read_bytes())]
            print(aligned([("kernel", "launches", "line"), *rows]))
            print(KILLED.format(f"signal {-code}" if code < 0 else f"exit code {code}"))
    return code if code >= 0 else 128 - code


def main(wanted: Wanted, journal: Path) -> int:
    """In the script's own process: run it, and show what was seen."""
    own, own_exit, seen, over = os.getpid(), os._exit, dict[int, Row](), threading.Event()

    def note(row: Row | None = None) -> None:
        if row:
            seen[id(row)] = row
        rows = [(each.name, f"{each.launches:,}", each.where) for each in [*seen.values()]]
        if os.getpid() == own and not over.is_set():
            write_whole(journal, json.dumps(rows))

    def note_again() -> None:
        while not over.wait(JOURNAL_S):
            note()

    def show() -> None:
        watched.close()
        over.set()
        print(f"\n{result}")
        journal.unlink(missing_ok=True)
        if wanted.against:
            print(f"\nAgainst {wanted.against}:\n{result.against(wanted.against)}")
        for path, write in ((wanted.html, result.to_html), (wanted.json, result.to_json)):
            if path:
                print(write(path))

    def exit_at_once(status: int) -> NoReturn:
        if os.getpid() == own:  # and not one that was forked
            result.notes.append("The script called os._exit.")
            show()
            sys.stdout.flush()
        own_exit(status)

    note()
    threading.Thread(target=note_again, daemon=True).start()
    watched, code = contextlib.ExitStack(), 0
    result = watched.enter_context(profile(wanted.run, target=wanted.target, on_new=note))
    # What packages ask of a GPU while they are imported is answered where there is none.
    answers = contextlib.nullcontext() if MODE.gpu else gpu_stand_in(SM_90, available=False)
    sys.argv, sys.path[0] = [wanted.script, *wanted.arguments], str(Path(wanted.script).parent)
    with patched(os, _exit=exit_at_once), answers:
        try:
            runpy.run_path(wanted.script, run_name="__main__")
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
            if code:
                result.notes.append(f"The script exited with {error.code!r}.")
        except BaseException as error:
            traceback.print_exc()
            code = 1
            result.notes.append(f"The script failed: {type(error).__name__}: {error}")
        _wait_for_other_threads()
    show()
    return code


def _wait_for_other_threads() -> None:
    """Wait until the script's other threads have ended, as Python does at its end. One of a pool
    ends when Python tells it to, so it is waited for until it has nothing to do: seen in two
    rounds, since it may be between two calls."""
    idle_rounds = 0
    while idle_rounds < 2:
        frames = sys._current_frames()
        busy = [
            thread
            for thread in threading.enumerate()
            if thread is not threading.current_thread()
            and not thread.daemon
            and getattr(frames.get(thread.ident or 0), "f_code", None) is not POOLS_LOOP
        ]
        idle_rounds = 0 if busy else idle_rounds + 1
        for thread in busy:
            thread.join(0.05)
        if not busy:
            time.sleep(0.02)


if __name__ == "__main__":
    try:
        sys.exit(main(msgspec.json.decode(sys.argv[1], type=Wanted), Path(sys.argv[2])))
    except CourseError as error:
        sys.exit(f"course: {error}")
