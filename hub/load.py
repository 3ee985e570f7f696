"""`course workshop load`: learners by the dozen against a running room.

Each logs in, opens lessons, runs their cells, and gives a wrong and a right answer to each
exercise. Three of them misbehave meanwhile: a loop without end, 30 GB, a crash. What comes out:
how long answers took, what a seat takes in memory, and whether anything of one reached another.
"""

import asyncio
import json
import os
import platform
import statistics
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from course.errors import CourseError
from course.files import write_whole
from course.lessons.order import EXERCISE
from course.lessons.source import NOTEBOOKS
from course.workshop.answers import CRASH, GREEDY, IMPORTS, WITHOUT_END, Answers, all_answers

from . import cgroups, seat_user
from .learner import Learner
from .settings import Settings, codes

CELL_S = 900
GREEDY_CELL = """
pieces = []
while len(pieces) < 120:
    pieces.append(bytearray(b"x") * 2**28)
"""
"""Takes 30 GB piece by piece, and writes to all of it: a system may promise what it does not have.
"""
SESSION = "load.ipynb"
"""No lesson: a session of its own, beside those of the lessons."""
GONE_S = 60


@dataclass
class Seat:
    """What one learner has seen."""

    name: str
    server_s: float = 0.0
    """Seconds from logging in until the server answered."""
    answers_s: list[float] = field(default_factory=list)
    """Seconds from running an answer's cell, with its check, until its verdict."""
    cells: int = 0
    errors: list[str] = field(default_factory=list)
    """Cells of lessons that failed, in a few words."""
    wrong_verdicts: list[str] = field(default_factory=list)
    """Checks that did not say what they must."""
    misbehaved: str = ""
    """What it did, and what came of it."""
    peak_bytes: int = 0


@dataclass
class Load:
    """A run. Prints as a report; its fields are the JSON's."""

    date: str
    machine: str
    learners: int
    lessons: list[str]
    seconds: float
    seats: list[Seat]
    reached_another: list[str]
    """Sentences about what reached one seat from another: must be empty."""
    left_over: list[str]
    """Processes and groups that outlived their servers: must be empty."""

    @property
    def answers_s(self) -> list[float]:
        return [seconds for seat in self.seats for seconds in seat.answers_s]

    @property
    def good(self) -> bool:
        wrong = any(seat.wrong_verdicts or seat.errors for seat in self.seats)
        return not (wrong or self.reached_another or self.left_over)

    def __str__(self) -> str:
        answers, servers = self.answers_s, [seat.server_s for seat in self.seats]
        peaks = sorted(seat.peak_bytes / 1e9 for seat in self.seats)
        lines = [
            f"{self.learners} learners, lessons {', '.join(self.lessons)}, on {self.machine}:"
            f" {self.seconds:.0f} s.",
            f"Server after {statistics.median(servers):.1f} s, at worst {max(servers):.1f} s.",
            f"{len(answers)} answers: median {statistics.median(answers):.1f} s, worst"
            f" {max(answers):.1f} s." if answers else "No check was run.",
            f"Memory of a seat at its peak: {statistics.median(peaks):.2f} GB, the largest"
            f" {peaks[-1]:.2f} GB.",
        ]  # fmt: skip
        for seat in self.seats:
            lines += [f"{seat.name}: {seat.misbehaved}"] if seat.misbehaved else []
            lines += [f"{seat.name}: WRONG: {text}" for text in seat.errors + seat.wrong_verdicts]
        lines += [f"REACHED ANOTHER: {text}" for text in self.reached_another]
        lines += [f"LEFT OVER: {text}" for text in self.left_over]
        lines += ["Nothing of one seat reached another, and nothing is left."] if self.good else []
        return "\n".join(lines)


def load(settings: Settings, lessons: list[str], out: Path | None = None) -> Load:
    """Run all seats of a workshop that is running.

    Raises CourseError where a lesson does not exist, or a seat cannot log in. The servers are ended
    then too.
    """
    refuse_unknown(lessons)
    outcome = asyncio.run(_load(settings, lessons))
    if out:
        write_whole(out, json.dumps(asdict(outcome), indent=1) + "\n")
    return outcome


def refuse_unknown(lessons: list[str]) -> None:
    """Raise CourseError where these are not all numbers of lessons."""
    known = sorted(path.name[:2] for path in NOTEBOOKS.glob("[0-9][0-9]-*.ipynb"))
    for lesson in lessons:
        if lesson not in known:
            raise CourseError(
                f"There is no lesson {lesson!r}: --lessons takes numbers such as"
                f" {','.join(known[:2])}; the last is {known[-1]}."
            )


async def _load(settings: Settings, lessons: list[str]) -> Load:
    # Read once and first: while it is read, no connection is answered.
    answers, known = all_answers(), codes(settings)
    begin = time.monotonic()
    learners = [Participant(settings.own_url, name, known[name]) for name in settings.names]
    groups = cgroups.Groups(settings.room)
    try:
        reached = await _morning(settings, groups, learners, lessons, answers)
    finally:
        running = await _end_servers(learners)
    gb = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)
    return Load(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=f"{len(os.sched_getaffinity(0))} cores of {platform.machine()}, {gb} GB",
        learners=len(learners),
        lessons=lessons,
        seconds=time.monotonic() - begin,
        seats=[learner.seat for learner in learners],
        reached_another=reached,
        left_over=running + await _left_over(settings, groups),
    )


async def _morning(
    settings: Settings,
    groups: cgroups.Groups,
    learners: list["Participant"],
    lessons: list[str],
    answers: dict[str, Answers],
) -> list[str]:
    """Let the learners do all that they do; sentences about what reached one from another."""
    reached = await _log_in(learners)
    await asyncio.gather(*(learner.open() for learner in learners))
    reached += await _look_at_neighbors(settings, learners)
    await asyncio.gather(
        *(learner.take_part(lessons, number, answers) for number, learner in enumerate(learners))
    )
    for learner in learners:
        learner.seat.peak_bytes = groups.peak_bytes(learner.name)
        await learner.reconnect()  # its connection has idled, and may have been closed
        whose = (await learner.run("print(whose, end='')", CELL_S)).text
        if whose != learner.name and not learner.seat.misbehaved.endswith("new session"):
            reached.append(f"{learner.name}: its session was lost, or is {whose!r}'s")
    return reached


async def _end_servers(learners: list["Participant"]) -> list[str]:
    """End every learner's server, whatever went wrong; the servers that could not be ended."""
    ended = await asyncio.gather(
        *(learner.end_server() for learner in learners), return_exceptions=True
    )
    return [
        f"{learner.name}: its server ({error})"
        for learner, error in zip(learners, ended, strict=True)
        if error is not None
    ]


async def _log_in(learners: list["Participant"]) -> list[str]:
    """Log all in, and try each one's neighbor's code first, which must be refused."""
    reached = []
    for learner, neighbor in zip(learners, [*learners[1:], learners[0]], strict=True):
        stranger = Learner(learner.url, learner.name, neighbor.code)
        if learner is not neighbor and await stranger.log_in():
            reached.append(f"{neighbor.name} logged in as {learner.name} with its own code")
        if not await learner.log_in():
            raise CourseError(f"{learner.name} cannot log in with its code.")
    return reached


LOOK = """
import os, signal
for what in ({home!r}, {codes!r}, {database!r}):
    try:
        os.listdir(what) if os.path.isdir(what) else open(what).read()
        print("read", what)
    except PermissionError:
        pass
    except FileNotFoundError:
        pass
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if os.stat("/proc/" + pid).st_uid == {user}:
            os.kill(int(pid), 0)
            print("could end process", pid)
    except (PermissionError, ProcessLookupError, FileNotFoundError):
        pass
try:
    open({course!r}, "a").close()
    print("could write to the course")
except OSError:
    pass
"""


async def _look_at_neighbors(settings: Settings, learners: list["Participant"]) -> list[str]:
    """Each tries to read and to end what is its neighbor's, from its session and by its browser."""
    reached = []
    for learner, neighbor in zip(learners, [*learners[1:], learners[0]], strict=True):
        if learner is neighbor:
            continue
        look = LOOK.format(
            home=str(settings.home(neighbor.name)), codes=str(settings.codes_file),
            database=str(settings.hub_folder / "hub.sqlite"), user=settings.user(neighbor.name),
            course=str(NOTEBOOKS.parent / "README.md"),
        )  # fmt: skip
        ran = await learner.run(look, CELL_S)
        reached += [f"{learner.name} {line}" for line in (ran.text + ran.error).splitlines()]
        answer = await learner.fetch("GET", f"{neighbor.server}/api/contents", check=False)
        if answer.status_code == 200 and '"content"' in answer.text:
            reached.append(f"{learner.name} lists the files of {neighbor.name} by its browser")
        board = await learner.fetch("GET", f"{learner.url}/services/board/data", check=False)
        if board.status_code == 200 and '"room"' in board.text:
            reached.append(f"{learner.name} sees the leader's board")
    return reached


class Participant(Learner):
    """A learner that goes through lessons, and notes what it sees."""

    def __init__(self, url: str, name: str, code: str) -> None:
        super().__init__(url, name, code)
        self.seat = Seat(name)

    async def open(self) -> None:
        """Have the server started, and a session of its own beside those of the lessons."""
        self.seat.server_s = await self.open_server()
        await self.open_session(SESSION)
        await self.run(f"whose = {self.name!r}", CELL_S)

    async def take_part(self, lessons: list[str], number: int, answers: dict[str, Answers]) -> None:
        """Go through the lessons; the first three learners misbehave first."""
        begin = time.monotonic()
        acts = (self._endless, self._greedy, self._crash)
        if number < len(acts):
            self.seat.misbehaved = await acts[number]()
        for lesson in lessons:
            await self._go_through(lesson, answers)
            print(
                f"{self.name}: lesson {lesson} after {time.monotonic() - begin:.0f} s", flush=True
            )

    async def _endless(self) -> str:
        ran = await self.run("while True: pass", CELL_S, interrupt_after_s=5)
        await self.run(IMPORTS, CELL_S)
        checked = await self.run(WITHOUT_END, CELL_S)
        if ran.error != "KeyboardInterrupt" or checked.verdict != "stopped":
            self.seat.errors.append(f"an endless loop gave {ran.error!r} and {checked.verdict!r}")
        return f"an endless loop: interrupted; in a check stopped after {checked.seconds:.0f} s"

    async def _greedy(self) -> str:
        await self.run(IMPORTS, CELL_S)
        checked = await self.run(GREEDY, CELL_S)
        ran = await self.run(GREEDY_CELL, CELL_S)
        how = ran.error
        if not ran.ended:
            await self.reconnect()
            how = "its session was ended; it has a new session"
        if checked.verdict != "stopped" or not how:
            self.seat.errors.append(f"30 GB gave {checked.verdict!r} and {how or 'an answer'!r}")
        return f"30 GB: {checked.verdict} in a check; in a cell, {how}"

    async def _crash(self) -> str:
        if (await self.run(CRASH, CELL_S)).ended:
            self.seat.errors.append("a crash did not end the session")
        await self.reconnect()
        return "a crash: it has a new session"

    async def _go_through(self, lesson: str, answers: dict[str, Answers]) -> None:
        """Run a lesson's cells in a session of its own; exercises first wrong, then right."""
        (name,) = [path.name for path in NOTEBOOKS.glob(f"{lesson}-*.ipynb")]
        before = self.kernel
        cells = await self.notebook(name)
        await self.open_session(name)
        exercise = ""
        for cell in cells:
            if marker := EXERCISE.match(cell.split("\n")[0]):
                exercise = marker[1]
                await self._answer(answers[exercise])
            elif not (exercise and cell.startswith(f'check("{exercise}"')):  # else it was checked
                ran = await self.run(cell, CELL_S)
                self.seat.cells += 1
                if ran.error or not ran.ended:
                    what = f"{name}: {ran.error or 'died'}: {cell.splitlines()[0][:60]}"
                    self.seat.errors.append(what)
        await self.close_session()
        self.kernel = before  # it goes on, and is asked again at the end

    async def _answer(self, answers: Answers) -> None:
        for cell, verdict in ((answers.wrong, answers.wrong_verdict), (answers.right, "right")):
            ran = await self.run(cell, CELL_S)
            self.seat.answers_s.append(ran.seconds)
            self.seat.cells += 1
            if ran.verdict != verdict:
                what = f"{answers.exercise}: {ran.verdict!r} in place of {verdict!r}"
                self.seat.wrong_verdicts.append(what)


async def _left_over(settings: Settings, groups: cgroups.Groups) -> list[str]:
    """Processes and control groups of seats that are still there a minute later."""
    end = time.monotonic() + GONE_S
    while True:
        left = []
        for name in settings.names:
            if settings.apart:
                pids = seat_user.processes(settings.user(name))
                left += [f"{name}: process {pid}" for pid in pids]
            left += [f"{name}: its control group"] if groups.is_there(name) else []
        if not left or time.monotonic() > end:
            return left
        await asyncio.sleep(0.5)
