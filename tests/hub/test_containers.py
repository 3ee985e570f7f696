"""Seats are containers: what one cannot do to another, to the host and to the room."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

from hub import ROOT, engine, start
from hub.codes import codes
from hub.learner import Learner
from hub.load import look_around
from hub.settings import read
from tests.hub.test_hub import free_ports
from tests.support.processes import PATIENCE_S, first_answer, python_path

pytestmark = [pytest.mark.hub, pytest.mark.container]
NOTEBOOK = "00-your-first-kernel.ipynb"


class Room:
    """A room of two seats that runs, and its learners with a session each."""

    def __init__(self):
        self.parent = Path(tempfile.mkdtemp(prefix="room-"))
        self.folder, self.port = self.parent / "room", free_ports(4)
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [
            sys.executable, "-m", "hub", "start", "--seats", "2", "--address", "127.0.0.1",
            "--memory", "1.5", "--disk", "0.2", "--folder", str(self.folder),
        ]  # fmt: skip
        self.environ = {**os.environ, "PYTHONPATH": python_path(), "COURSE_MODE": "cpu"}
        self.loop = asyncio.new_event_loop()

    def start(self):
        with (self.parent / "log").open("w") as log:
            self.hub = subprocess.Popen(
                [*self.command, "--port", str(self.port)],
                cwd=ROOT, env=self.environ, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        # Its page to log in at.
        first_answer(
            lambda: urllib.request.urlopen(f"{self.url}/hub/login").close(),
            self.hub,
            self.parent / "log",
        )
        self.settings = read(self.folder)
        known = codes(self.settings)
        self.learners = {
            name: Learner(self.url, name, known[name]) for name in ("leader", *self.settings.names)
        }
        self.wait(self._enter_all())

    async def _enter_all(self):
        await asyncio.gather(*map(self._enter, self.settings.names))

    async def _enter(self, name):
        learner = self.learners[name]
        assert await learner.log_in()
        await learner.open_server()
        await learner.open_session(NOTEBOOK)

    def wait(self, awaitable):
        return self.loop.run_until_complete(awaitable)

    def run(self, seat, cell):
        return self.wait(self.learners[seat].run(cell, PATIENCE_S))

    def printed(self, seat, cell):
        ran = self.run(seat, cell)
        assert not ran.error, ran.text
        return ran.text.strip()

    def end(self):
        self.hub.send_signal(signal.SIGTERM)
        self.hub.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def room():
    room = Room()
    try:
        room.start()
        yield room
    finally:
        room.end()
        room.loop.close()
        left = [*engine.running(room.settings)]
        left += [name for name in room.settings.names if os.path.ismount(room.settings.home(name))]
        rules = engine.run("iptables", "-S")
        networks = engine.run(engine.program(), "network", "ls")
        shutil.rmtree(room.parent)
    assert left == [] and f"-{room.port}" not in rules and f"-{room.port}-" not in networks


def test_a_learner_checks_an_answer_and_the_leader_sees_it(room):
    cell = "from course import check; check('last-program', 'a'); check('last-program', 'b')"
    assert room.run("seat-01", cell).verdict == "right"
    leader = room.learners["leader"]
    assert room.wait(leader.log_in())
    room.wait(leader.fetch("GET", f"{room.url}/services/board/"))
    data = room.wait(leader.fetch("GET", f"{room.url}/services/board/data")).json()
    first = next(each for each in data["room"]["exercises"] if each["name"] == "last-program")
    assert (first["right"], data["serving"]) == (1, ["seat-01", "seat-02"])


def test_a_lessons_links_to_solutions_and_pages_lead_to_files(room):
    cell = "import os; print(os.path.exists('../solutions/00-your-first-kernel.py'),"
    cell += " os.path.isdir('../docs/pages'), os.path.isdir('../kernels'))"
    assert room.printed("seat-01", cell) == "True True True"


LISTEN = """
import socket
listening = []
for address in ("127.0.0.1", "0.0.0.0"):
    listening.append(socket.socket())
    listening[-1].bind((address, PORT))
    listening[-1].listen()
    PORT += 1
print(socket.gethostbyname(socket.gethostname()))
"""
CONNECT = """
import socket
for address in ADDRESSES:
    try:
        socket.create_connection(address, 2).close()
        print("reached", address)
    except OSError:
        pass
"""


def test_nothing_that_a_seat_listens_at_is_reached_from_another(room):
    # A debugger and the socket of ipykernel's prints are such ports.
    own = room.printed("seat-02", f"PORT = 4444{LISTEN}").split()[-1]
    addresses = [("127.0.0.1", 4444), (own, 4445), ("0.0.0.0", 4445)]
    connect = f"ADDRESSES = {addresses}{CONNECT}"
    assert room.printed("seat-02", connect).count("reached") == 3
    assert room.printed("seat-01", connect) == ""


def test_a_seat_reaches_the_hub_and_nothing_else_of_the_host_or_the_network(room):
    hub = (room.settings.gateway("seat-01"), room.port + 1)
    assert "reached" in room.printed("seat-01", f"ADDRESSES = [{hub}]{CONNECT}")
    for seat, neighbor in (("seat-01", "seat-02"), ("seat-02", "seat-01")):
        assert room.printed(seat, look_around(room.settings, seat, neighbor)) == ""


def test_a_server_on_the_host_is_reached_by_the_host_and_by_no_seat(room):
    import socket

    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        address = (room.settings.gateway("seat-01"), taken.getsockname()[1])
        socket.create_connection(address, 2).close()
        assert room.printed("seat-01", f"ADDRESSES = [{address}]{CONNECT}") == ""


def test_a_seat_has_no_right_on_its_host_and_no_other_seats_number(room):
    cell = "import os; print(os.getuid()); print(open('/proc/self/status').read())"
    told = {seat: room.printed(seat, cell) for seat in ("seat-01", "seat-02")}
    assert len({text.split()[0] for text in told.values()}) == 2
    for text in told.values():
        assert text.split()[0] != "0"
        assert "CapBnd:\t0000000000000000" in text and "NoNewPrivs:\t1" in text
    assert room.run("seat-01", "open('/course/now/kernels/x', 'w')").error == "OSError"
    assert room.run("seat-01", "open('/usr/x', 'w')").error == "OSError"


def test_a_seat_fills_its_own_disk_and_the_neighbor_goes_on_saving(room):
    fill = "file = open('fill', 'wb')\nwhile True: file.write(bytes(2**20)); file.flush()"
    before = shutil.disk_usage(room.parent).free
    assert "No space left" in room.run("seat-01", fill).text
    assert before - shutil.disk_usage(room.parent).free < 2 * room.settings.disk_bytes
    assert room.printed("seat-02", "print(open('note', 'w').write('saved'))") == "5"
    room.printed("seat-01", "file = None; import os; os.remove('fill')")


def test_a_seat_that_fills_memory_is_ended_alone(room):
    room.printed("seat-02", "mine = 1")
    asyncio_run = room.run("seat-01", "pieces = [bytearray(b'x') * 2**28 for _ in range(40)]")
    assert not asyncio_run.ended
    room.wait(room.learners["seat-01"].reconnect())
    assert "memory" in room.printed("seat-01", "print('next')")
    assert room.printed("seat-02", "print(mine)") == "1"
    assert engine.running(room.settings)["seat-01"].killed >= 1
    assert engine.running(room.settings)["seat-02"].killed == 0


def test_a_seat_can_start_only_so_many_processes(room):
    cell = """
import os, signal
pids = []
try:
    while len(pids) < 3000:
        pid = os.fork()
        if not pid:
            signal.pause()
        pids.append(pid)
except BlockingIOError:
    print("no more")
for pid in pids:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
"""
    assert room.printed("seat-01", cell).endswith("no more")
    assert room.printed("seat-02", "print(6 * 7)") == "42"


def test_a_seat_has_no_namespaces_of_its_own_and_leaves_no_key(room):
    cell = """
import ctypes, os, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
refused = [libc.unshare(0x10000000), libc.syscall(56, 0x10000011, 0, 0, 0, 0)]
print(refused + [libc.syscall(250, 0, -4, 1)])
threading.Thread(target=print, args=["a thread"]).start()
print(subprocess.run(["echo", "a process"], capture_output=True, text=True).stdout)
"""
    printed = room.printed("seat-01", cell)
    assert "[-1, -1, -1]" in printed and "a thread" in printed and "a process" in printed


def test_a_seat_takes_a_few_of_the_hubs_connections_and_no_more(room):
    hub = (room.settings.gateway("seat-01"), room.port + 1)
    cell = f"ADDRESSES = [{hub}] * 200" + CONNECT.replace(
        "socket.create_connection(address, 2).close()",
        "kept = [*globals().get('kept', []), socket.create_connection(address, 2)]",
    )
    assert 0 < room.printed("seat-01", f"{cell}\nprint()").count("reached") <= 30
    assert "reached" in room.printed(
        "seat-02", f"ADDRESSES = [{(room.settings.gateway('seat-02'), room.port + 1)}]{CONNECT}"
    )
    room.printed("seat-01", "del kept")


def test_a_seat_takes_no_terminals_from_another_and_fills_no_queue(room):
    child = "import pty, time; kept = [pty.openpty() for _ in range(480)];"
    child += "print(len(kept), flush=True); time.sleep(99)"
    take = f"""
import subprocess, sys
command = [sys.executable, "-c", {child!r}]
started = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(8)]
print([int(each.stdout.readline() or 0) for each in started])
for number in range(6000):
    open(f"/queue/{{number}}.json", "w").close()
"""
    assert room.printed("seat-01", take).startswith(str([480] * 8))
    turn = "import os; os.openpty(); from course.gpus.turn import gpu_turn\n"
    turn += "with gpu_turn('x'): print('mine')"
    assert room.printed("seat-02", turn).endswith("mine")
    room.printed("seat-01", "for each in started: each.kill()")
    end = time.monotonic() + PATIENCE_S
    while len(os.listdir(room.settings.queue_folder)) > start.MOST_TICKETS:
        assert time.monotonic() < end
        time.sleep(0.2)


def test_a_learners_address_shows_nobody_else_after_its_server_died(room):
    # Whatever another seat listens at, the proxy leads to this seat's own network.
    serve = "import subprocess, sys\n"
    serve += "subprocess.Popen([sys.executable, '-m', 'http.server', '9999'])"
    room.run("seat-01", serve)
    container = room.settings.container("seat-02")
    engine.run(engine.program(), "kill", container)
    answer = room.wait(
        room.learners["seat-02"].fetch("GET", f"{room.url}/user/seat-02/", check=False)
    )
    assert "Directory listing" not in answer.text
    assert room.settings.network("seat-01").overlaps(room.settings.network("seat-02")) is False


def test_a_second_room_of_the_folder_is_refused_and_the_first_goes_on(room):
    ended = subprocess.run(
        [*room.command, "--port", str(free_ports(4))],
        cwd=ROOT, env=room.environ, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert ended.returncode == 1 and "A room runs in" in ended.stderr
    assert room.printed("seat-01", "print(6 * 7)") == "42"


def test_a_hub_that_was_killed_leaves_the_room_to_the_next_start(room):
    room.hub.kill()  # and with it, whatever must not outlive it
    room.hub.wait()
    start.stop(room.settings)
    known = json.loads(room.settings.codes_file.read_text())
    room.start()
    assert json.loads(room.settings.codes_file.read_text()) == known
    assert room.printed("seat-01", "print(open('../work/.progress.json').read())").count("right")
