"""`course workshop rehearse`: do on this host what the room will do, as a learner would.

Each act is something that happens in a workshop. It is green, or it is red with the sentence that
helps. All of it happens in a temporary work folder, with caches and progress of its own.
"""

import contextlib
import json
import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from course.errors import CourseError
from course.files import scratch
from course.isolate.available import free_memory_bytes
from course.lessons.folders import NOTEBOOKS, ROOT
from course.lessons.learner_copies import copy_lessons

from . import engine, start
from .answers import CRASH, GREEDY, IMPORTS, WITHOUT_END, Answers, lesson_answers
from .session import Ran, Session
from .settings import LEAST_SEAT_BYTES, Settings

CELL_S = 300
"""After this long, an answer counts as never given."""
PATIENT_S = 60
"""A learner who waits longer for the first answer calls the leader."""
SEAT_DISK = 200 * 2**20
"""Bytes for a learner's notebooks and caches. The lessons as they stand take 2 MB; compiled kernels
and exports come on top."""
SPARE_DISK = 2**30
OFFLINE = ["unshare", "--net", "--map-root-user"]
"""Runs a command without any network."""


@dataclass(frozen=True)
class Outcome:
    """How an act went."""

    act: str
    green: bool
    says: str
    helps: str = ""
    """What to do where it is red; where it is green, nothing."""
    seconds: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "helps", "" if self.green else self.helps)

    def __str__(self) -> str:
        took = f" ({self.seconds:.0f} s)" if self.seconds >= 1 else ""
        line = f"{'green' if self.green else 'RED':6}{self.act:15}{self.says}{took}"
        return line + (f"\n{'':21}-> {self.helps}" if self.helps else "")


@dataclass
class Stage:
    """Where the rehearsal takes place, and what its acts have measured."""

    folder: Path
    seats: int
    answers: list[Answers]
    image: str = ""
    """The course's image, where seats are to be containers."""
    waits_s: list[float] = field(default_factory=list)
    """Seconds from a check to its verdict, for each answer."""
    peak_bytes: int = 0
    """The most memory that a session and its checks took."""

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def session(self) -> contextlib.closing[Session]:
        """A learner's session, which ends with the block that it is opened for."""
        return contextlib.closing(Session(self.work, self.environ()))

    def environ(self) -> dict[str, str]:
        """A learner's environment: nothing is shared with who rehearses."""
        own = {name: str(self.folder / name.lower()) for name in ("HOME", "TMPDIR")}
        for path in own.values():
            Path(path).mkdir(exist_ok=True)
        kept = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        caches = {"COURSE_CACHE": f"{self.folder}/cache", "COURSE_DATA": ""}
        return own | kept | caches


Act = Callable[[Stage], Iterator[Outcome]]


def rehearse(
    seats: int,
    say: Callable[[Outcome], None],
    acts: tuple[Act, ...] = (),
    answers: list[Answers] | None = None,
    image: str = "",
) -> bool:
    """Run all acts, telling each outcome as it comes; whether all were green.

    seats: how many learners the room will have: disk and memory are held against that.
    """
    green = True
    with scratch() as folder:
        stage = Stage(folder, seats, lesson_answers() if answers is None else answers, image)
        stage.work.mkdir()
        for act in acts or ACTS:
            try:
                for outcome in act(stage):
                    say(outcome)
                    green &= outcome.green
            except (CourseError, OSError, RuntimeError, subprocess.SubprocessError) as error:
                name = act.__name__.replace("_", " ")
                say(Outcome(name, False, f"could not be rehearsed: {error}", "`course doctor`"))
                green = False
    return green


def machine(stage: Stage) -> Iterator[Outcome]:
    """What `course doctor` says."""
    from course import doctor

    problems = [finding for finding in doctor.examine() if finding.level == "problem"]
    for finding in problems:
        yield Outcome("machine", False, f"{finding.name}: {finding.says}", finding.mend)
    if not problems:
        from course import MODE

        yield Outcome("machine", True, f"`course doctor` finds no problem; {MODE}")


def disk(stage: Stage) -> Iterator[Outcome]:
    """The lessons are copied, and there is room for all seats."""
    copied = copy_lessons(work=stage.work)
    free = shutil.disk_usage(stage.folder).free
    needed = SPARE_DISK + stage.seats * SEAT_DISK
    says = f"{len(copied.new)} lessons copied; {free / 2**30:.1f} GiB free"
    says += f" and {needed / 2**30:.1f} needed for {stage.seats} seats"
    helps = f"make room in {tempfile.gettempdir()}, or set TMPDIR to a folder on a larger disk"
    if not copied.new:
        helps = f"{NOTEBOOKS} holds no lessons: `git checkout notebooks` brings them back"
    yield Outcome("disk", free >= needed and bool(copied.new), says, helps)


def lessons(stage: Stage) -> Iterator[Outcome]:
    """A session per lesson: a right answer must be right, and a usual mistake be told."""
    for lesson in stage.answers:
        with stage.session() as running:
            begin = time.monotonic()
            running.run(IMPORTS + lesson.before, CELL_S)
            right = running.run(lesson.right, CELL_S)
            wrong = running.run(lesson.wrong, CELL_S)
            seconds = time.monotonic() - begin
        stage.waits_s += [right.seconds, wrong.seconds]
        stage.peak_bytes = max(stage.peak_bytes, running.peak_bytes)
        yield _lesson_outcome(lesson, right, wrong, seconds)


def _lesson_outcome(lesson: Answers, right: Ran, wrong: Ran, seconds: float) -> Outcome:
    name = f"lesson {lesson.lesson}"
    helps = (
        f"leave {lesson.exercise} out of the plan, or take another lesson: it fails whatever the"
        " learner does. `course doctor` says whether this machine is the reason"
    )
    for ran, expected, which in (
        (right, "right", "the right answer"),
        (wrong, lesson.wrong_verdict, f"a wrong answer ({lesson.wrong_name})"),
    ):
        if ran.outcome != expected:
            says = f"{lesson.exercise}: {which} gave {ran.outcome!r} and not {expected!r}"
            printed = " ".join(ran.text.split())[-300:]
            return Outcome(name, False, f"{says}. {printed}".strip(". "), helps, seconds)
    answered = f"right and wrong told apart, after {right.seconds:.1f} and {wrong.seconds:.1f} s"
    return Outcome(name, True, f"{lesson.exercise}: {answered}", seconds=seconds)


def endless_loop(stage: Stage) -> Iterator[Outcome]:
    """An answer without end is stopped; a cell without end is interrupted; the session lives."""
    with stage.session() as running:
        running.run(IMPORTS, CELL_S)
        checked = running.run(WITHOUT_END, CELL_S)
        cell = running.run("while True: pass", CELL_S, interrupt_after_s=2)
        alive = lives(running)
    green = checked.outcome == "stopped" and cell.error == "KeyboardInterrupt" and alive
    says = f"the check was stopped after {checked.seconds:.0f} s, the cell by the stop button"
    if not green:
        says = f"the check gave {checked.outcome!r}, the stop button {cell.error or 'nothing'!r}"
    helps = "show learners Kernel > Restart, and report this: it should not happen"
    yield Outcome("endless loop", green, says, helps, checked.seconds + cell.seconds)


def big_allocation(stage: Stage) -> Iterator[Outcome]:
    """An answer that asks for 30 GB is stopped, and the session lives."""
    with stage.session() as running:
        running.run(IMPORTS, CELL_S)
        checked = running.run(GREEDY, CELL_S)
        alive = lives(running)
    green = checked.outcome in ("stopped", "crashed") and alive
    lived = ", and the session lives" if green else f"; the session {'lives' if alive else 'died'}"
    says = f"30 GB in a check: {checked.outcome}{lived}"
    helps = "give each seat a memory limit (hub/README.md)"
    yield Outcome("big allocation", green, says, helps, checked.seconds)


def crash(stage: Stage) -> Iterator[Outcome]:
    """A session that dies ends alone: its neighbor goes on."""
    with stage.session() as other:
        with stage.session() as running:
            died = running.run(CRASH, CELL_S)
        alive = lives(other)
    green = not died.ended and alive
    says = "a session crashed, and the one beside it goes on"
    if not green:
        says = f"the session {'went on' if died.ended else 'died'}, its neighbor"
        says += " lives" if alive else " died too"
    yield Outcome("crash", green, says, "`course doctor`", died.seconds)


def lives(running: Session) -> bool:
    """Whether a session still computes."""
    return "42" in running.run("print(6 * 7)", PATIENT_S).text


MEASURES = """
import sys, time
from course.errors import CourseError
from course.gpus.turn import gpu_turn
try:
    with gpu_turn("a rehearsal", say=lambda text: print(text, flush=True)):
        print("measures", flush=True)
        time.sleep(int(sys.argv[1]))
except CourseError as error:
    print(error)
"""
"""A session that measures for so many seconds, and says before whom it waits for."""


def gpu_queue(stage: Stage) -> Iterator[Outcome]:
    """Two sessions measure: the second waits, is told for whom, and comes on when the first is
    gone."""
    folder = Path(os.environ.get("COURSE_GPU_QUEUE") or stage.folder / "queue")
    folder.mkdir(exist_ok=True)
    environ = {**os.environ, **stage.environ(), "COURSE_GPU_QUEUE": str(folder)}
    told, waited = [], False
    with _measuring(environ, "the first seat", 600) as first:
        begun = _line(first)
        with _measuring(environ, "the second seat", 0) as second:
            while line := _line(second):
                told.append(line)
                if "the first seat has measured" in line:
                    waited = bool(begun)
                    first.kill()  # a learner whose server is ended in the middle of a timing
    green = waited and told[-1] == "measures"
    says = "the second waits, reads for whom, and comes on when the first is ended"
    if not green:
        says = "two sessions did not take turns" + (f": {told[-1]}" if told else "")
    helps = f"let every seat write to {folder}: `chmod 1777 {folder}`"
    yield Outcome("GPU queue", green, says, helps)


@contextlib.contextmanager
def _measuring(
    environ: dict[str, str], seat: str, seconds: int
) -> Iterator[subprocess.Popen[bytes]]:
    """A seat's session that measures for so many seconds; it is killed at the end of the block."""
    environ = {**environ, "COURSE_SEAT": seat}
    command = [sys.executable, "-c", MEASURES, str(seconds)]
    # Unbuffered: a line that was read with the one before it would not wake _line.
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            yield process
        finally:
            process.kill()


def _line(process: subprocess.Popen[bytes]) -> str:
    """The next line that a process prints; empty if none comes in time, or it has ended."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENT_S)
    return process.stdout.readline().decode().strip() if ready else ""


def offline(stage: Stage) -> Iterator[Outcome]:
    """A check without any network."""
    if subprocess.run([*OFFLINE, "true"], capture_output=True).returncode:
        says = "not tried: this user may not cut a process off from the network"
        yield Outcome("offline", True, says + "; unplug the host and rehearse again to see")
        return
    lesson = stage.answers[0]
    script = stage.folder / "offline.py"
    body, check = lesson.right.rsplit("\n", 1)
    script.write_text(f"{IMPORTS}\n{lesson.before}\n{body}\nprint({check}.verdict)\n")
    begin = time.monotonic()
    environ = {**os.environ, **stage.environ()}
    ended = subprocess.run(
        [*OFFLINE, sys.executable, str(script)],
        cwd=stage.work, env=environ, capture_output=True, text=True, timeout=CELL_S,
    )  # fmt: skip
    green = ended.stdout.split()[-1:] == ["right"]
    says = "a check is answered with the network cut off"
    if not green:
        says = f"a check failed with the network cut off: {(ended.stderr or ended.stdout)[-200:]}"
    helps = "keep the host connected, and report what it asked for"
    yield Outcome("offline", green, says, helps, time.monotonic() - begin)


def times(stage: Stage) -> Iterator[Outcome]:
    """How long answers took, the first in a session included, where workers still start."""
    waits = stage.waits_s
    if not waits:
        return
    median, worst = statistics.median(waits), max(waits)
    says = f"{len(waits)} answers, median {median:.1f} s, worst {worst:.1f} s, one learner alone"
    helps = "end what else computes on this host, or take a faster one"
    yield Outcome("times", worst <= PATIENT_S, says, helps)


def memory(stage: Stage) -> Iterator[Outcome]:
    """Whether what a learner takes fits as often as there are seats."""
    needed, free = stage.seats * LEAST_SEAT_BYTES, free_memory_bytes()
    says = (
        f"{stage.seats} learners whose lessons stay open take {needed / 2**30:.0f} GiB, and"
        f" {free / 2**30:.0f} are free; the largest session took {stage.peak_bytes / 2**30:.1f}"
    )
    fits = max(0, free // LEAST_SEAT_BYTES)
    helps = f"take a host with more memory, or {fits} seats; two learners may share one"
    yield Outcome("memory", needed <= free, says, helps)


def seat(stage: Stage) -> Iterator[Outcome]:
    """What `start` does, as far as a seat in which a check is answered."""
    if os.getuid():
        says = "not tried, since only root can make containers"
        yield Outcome("a seat", True, says + ": rehearse with sudo, or start with --one-account")
        return
    begin = time.monotonic()
    settings = Settings(
        folder=stage.folder / "room", seats=1, address="127.0.0.1", port=REHEARSED_PORT,
        image=stage.image or Settings.image, disk_bytes=2**29,
    )  # fmt: skip
    with contextlib.ExitStack() as room:
        start.make_folder(settings)
        start.prepare(settings, room)
        said = engine.try_seat(settings, settings.names[0], SEAT_CELL)
    green = said.split()[-1:] == ["right"]
    says = "a container started as `start` does, and a check was answered in it"
    if not green:
        says = f"a container started as `start` does did not answer a check: {said[-300:]}"
    helps = f"build the image anew (`{engine.program()} build -t {settings.image} {ROOT}`)"
    yield Outcome("a seat", green, says, helps, time.monotonic() - begin)


SEAT_CELL = "from course import check; print(check('last-program', 'b').verdict)"
REHEARSED_PORT = 8500


def minutes(answers: list[Answers]) -> int:
    """How long a rehearsal takes, about: what two idle cores took, rounded up."""
    return 3 + len(answers) // 4


ACTS: tuple[Act, ...] = (
    machine, disk, seat, lessons, endless_loop, big_allocation, crash, gpu_queue, offline, times,
    memory,
)  # fmt: skip


def as_json(outcomes: list[Outcome]) -> str:
    """A JSON list with one object per outcome."""
    return json.dumps([vars(outcome) for outcome in outcomes], indent=1)
