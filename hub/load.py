"""`course workshop load`: learners by the dozen in a room of their own.

Each logs in, opens lessons and leaves them open, runs their cells, and gives a wrong and a right
answer to each exercise. Three of them misbehave first: a loop without end, 30 GB, a crash. What
comes out: how long answers took, what a seat takes in memory, and whether anything of one reached
another. The room is made for it and removed with all that is in it.
"""

import asyncio
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx

from course.errors import CourseError
from course.files import write_whole
from course.lessons.folders import NOTEBOOKS
from course.lessons.order import EXERCISE

from . import ROOT, engine
from .answers import CRASH, GREEDY, IMPORTS, WITHOUT_END, Answers, all_answers
from .codes import codes
from .learner import Learner
from .settings import Settings, read

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
GONE_S = 120
START_S = 180


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
    killed: int = 0
    """How often something in it was ended for want of memory."""


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
    """Containers and disks that outlived the room: must be empty."""

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
            lines += [f"{seat.name}: out of memory {seat.killed} times"] if seat.killed else []
            lines += [f"{seat.name}: WRONG: {text}" for text in seat.errors + seat.wrong_verdicts]
        lines += [f"REACHED ANOTHER: {text}" for text in self.reached_another]
        lines += [f"LEFT OVER: {text}" for text in self.left_over]
        lines += ["Nothing of one seat reached another, and nothing is left."] if self.good else []
        return "\n".join(lines)


def load(options: list[str], port: int, lessons: list[str], out: Path | None = None) -> Load:
    """Start a room with these options of `start`, fill it with learners, and remove it.

    Raises CourseError where the room does not start, or a seat cannot log in. The room is removed
    then too.
    """
    answers = all_answers()  # read once and first: while it is read, no connection is answered
    with tempfile.TemporaryDirectory(prefix="load-") as parent:
        folder = Path(parent) / "room"
        command = [sys.executable, "-m", "hub", "start", "--folder", str(folder)]
        room = subprocess.Popen([*command, "--port", str(port), *options], cwd=ROOT)
        try:
            settings = _wait_for(room, folder)
            outcome = asyncio.run(_load(settings, lessons, answers))
        finally:
            room.terminate()
            room.wait(GONE_S)
        outcome.left_over += left_over(settings)
    if out:
        write_whole(out, json.dumps(asdict(outcome), indent=1) + "\n")
    return outcome


def _wait_for(room: "subprocess.Popen[bytes]", folder: Path) -> Settings:
    """The settings of a room, once its hub answers. Raises CourseError where it ends instead."""
    end = time.monotonic() + START_S
    while room.poll() is None and time.monotonic() < end:
        time.sleep(0.3)
        with contextlib.suppress(CourseError, httpx.HTTPError):
            settings = read(folder)
            if httpx.get(f"{settings.own_url}/hub/login", trust_env=False).status_code == 200:
                return settings
    raise CourseError("The room for the load did not start; what it said stands above.")


def left_over(settings: Settings) -> list[str]:
    """Containers and disks of a room that has ended which are still there."""
    if not settings.apart:
        return []
    mounted = [name for name in settings.names if os.path.ismount(settings.home(name))]
    return [f"{name}: its container" for name in engine.running(settings)] + [
        f"{name}: its disk" for name in mounted
    ]


async def _load(settings: Settings, lessons: list[str], answers: dict[str, Answers]) -> Load:
    known, begin = codes(settings), time.monotonic()
    learners = [Participant(settings.own_url, name, known[name]) for name in settings.names]
    try:
        reached = await _morning(settings, learners, lessons, answers)
    finally:
        left = await _end_servers(learners)
    gb = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)
    return Load(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=f"{len(os.sched_getaffinity(0))} cores of {platform.machine()}, {gb} GB",
        learners=len(learners),
        lessons=lessons,
        seconds=time.monotonic() - begin,
        seats=[learner.seat for learner in learners],
        reached_another=reached,
        left_over=left,
    )


async def _morning(
    settings: Settings,
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
    containers = engine.running(settings) if settings.apart else {}
    for learner in learners:
        if container := containers.get(learner.name):
            learner.seat.peak_bytes = container.peak_bytes
            learner.seat.killed = container.killed
        await learner.reconnect()  # its connection has idled, and may have been closed
        whose = (await learner.run("print(whose, end='')", CELL_S)).text
        if whose != learner.name:
            reached.append(f"{learner.name}: its last session was lost, or is {whose!r}'s")
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
import os, socket
for what in {paths!r}:
    try:
        os.listdir(what) if os.path.isdir(what) else open(what, "rb").read(1)
        print("read", what)
    except OSError:
        pass
for address in {addresses!r}:
    try:
        socket.create_connection(address, 1).close()
        print("reached", *address)
    except OSError:
        pass
try:
    open({course!r}, "a").close()
    print("could write to the course")
except OSError:
    pass
"""


async def _look_at_neighbors(settings: Settings, learners: list["Participant"]) -> list[str]:
    """Each tries to read and to reach what is its neighbor's or the host's, from its session and by
    its browser."""
    reached = []
    for learner, neighbor in zip(learners, [*learners[1:], learners[0]], strict=True):
        if learner is neighbor:
            continue
        if settings.apart:
            ran = await learner.run(look_around(settings, learner.name, neighbor.name), CELL_S)
            reached += [f"{learner.name} {line}" for line in (ran.text + ran.error).splitlines()]
        answer = await learner.fetch("GET", f"{neighbor.server}/api/contents", check=False)
        if answer.status_code == 200 and '"content"' in answer.text:
            reached.append(f"{learner.name} lists the files of {neighbor.name} by its browser")
        board = await learner.fetch("GET", f"{learner.url}/services/board/data", check=False)
        if board.status_code == 200 and '"room"' in board.text:
            reached.append(f"{learner.name} sees the leader's board")
    return reached


def look_around(settings: Settings, name: str, neighbor: str) -> str:
    """A cell that tries what is not a seat's: it prints what it could read or reach."""
    here, other = settings.gateway(name), settings.network(neighbor)
    ports = (22, settings.port, *range(settings.port + 2, settings.port + 4))
    addresses = [(here, port) for port in ports]
    addresses += [(str(host), port) for host in list(other)[1:4] for port in (8888, *ports)]
    folder = [settings.home(neighbor), settings.codes_file, settings.hub_folder / "hub.sqlite"]
    paths = [*map(str, folder), str(settings.hub_folder / "engine.sock"), "/var/run/docker.sock"]
    course = f"{engine.INSIDE}/notebooks/README.md"
    return LOOK.format(paths=paths, addresses=[*addresses, ("1.1.1.1", 53)], course=course)


class Participant(Learner):
    """A learner that goes through lessons, and notes what it sees."""

    def __init__(self, url: str, name: str, code: str) -> None:
        super().__init__(url, name, code)
        self.seat = Seat(name)

    async def open(self) -> None:
        """Have the server started, and a session of its own beside those of the lessons."""
        self.seat.server_s = await self.open_server()
        await self.open_session(SESSION)

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
        """Run a lesson's cells in a session of its own, which stays; exercises first wrong, then
        right."""
        (name,) = [path.name for path in NOTEBOOKS.glob(f"{lesson}-*.ipynb")]
        cells = await self.notebook(name)
        await self.open_session(name)
        await self.run(f"whose = {self.name!r}", CELL_S)
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

    async def _answer(self, answers: Answers) -> None:
        for cell, verdict in ((answers.wrong, answers.wrong_verdict), (answers.right, "right")):
            ran = await self.run(cell, CELL_S)
            self.seat.answers_s.append(ran.seconds)
            self.seat.cells += 1
            if ran.verdict != verdict:
                what = f"{answers.exercise}: {ran.verdict!r} in place of {verdict!r}"
                self.seat.wrong_verdicts.append(what)
