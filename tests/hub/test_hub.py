"""The real hub, from the leader's command to its end, with a learner and the leader at it."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

import pytest

from hub import ROOT
from hub.learner import Learner
from tests.support.processes import PATIENCE_S, first_answer, python_path

pytestmark = pytest.mark.hub


@pytest.fixture(scope="module")
def room():
    """A room of two seats; its address and the codes. All seats run as this user."""
    folder = Path(tempfile.mkdtemp(prefix="room-"))  # a path short enough for sockets
    port = free_ports(4)
    # As root every learner would be root, so it is refused: here root goes by another number.
    account = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    if os.getuid():
        account = []
    elif subprocess.run([*account, "true"], capture_output=True).returncode:
        pytest.skip("needs a user namespace, or a user who is not root")
    command = [sys.executable, "-m", "course", "workshop", "start", "--one-account"]
    options = ["--seats", "2", "--address", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("w") as log:
        hub = subprocess.Popen(
            [*account, *command, *options, "--folder", str(folder / "room")],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": python_path(), "COURSE_MODE": "cpu"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        # Its page to log in at.
        first_answer(
            lambda: urllib.request.urlopen(f"{url}/hub/login").close(), hub, folder / "log"
        )
        yield url, json.loads((folder / "room" / "codes.json").read_text())
    finally:
        hub.send_signal(signal.SIGTERM)
        hub.wait(PATIENCE_S)
    left = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_of(pid, folder)]
    shutil.rmtree(folder)
    assert left == []


def free_ports(count):
    """The first of some ports in a row on which nothing listens."""
    for port in range(20000 + os.getpid() % 10000, 60000, 10):
        try:
            for each in range(port, port + count):
                with socket.socket() as trial:
                    trial.bind(("127.0.0.1", each))
            return port
        except OSError:
            continue
    raise AssertionError("every port is taken")


def is_of(pid, folder):
    """Whether a process was told of the room's folder, by its environment or its command."""
    try:
        texts = [(Path("/proc") / str(pid) / name).read_bytes() for name in ("environ", "cmdline")]
    except OSError:
        return False
    return any(str(folder / "room").encode() in text for text in texts)


def test_a_learner_works_the_leader_sees_it_and_neither_gets_into_the_others_place(room):
    asyncio.run(a_morning(*room))


async def a_morning(url, codes):
    learner = Learner(url, "seat-01", codes["seat-01"])
    assert not await Learner(url, "seat-01", codes["seat-02"]).log_in()
    assert not await Learner(url, "nobody", "none").log_in()
    guessing = asyncio.create_task(guess(url))
    await asyncio.sleep(6)
    assert await learner.log_in()  # at once, whatever others have tried
    assert not guessing.done()
    await learner.open_server()

    assert len(await learner.notebook("00-your-first-kernel.ipynb")) > 5
    await learner.open_session("00-your-first-kernel.ipynb")
    cell = "from course import check; check('last-program', 'a'); check('last-program', 'b')"
    ran = await learner.run(cell, PATIENCE_S)
    assert ran.verdict == "right", ran
    where = await learner.run("import os, sys; print(os.getcwd(), sys.executable)", PATIENCE_S)
    assert "seats/seat-01/work" in where.text and sys.executable in where.text

    leader = Learner(url, "leader", codes["leader"])
    assert await leader.log_in()
    page = await leader.fetch("GET", f"{url}/services/board/")
    assert "<h1>The room</h1>" in page.text
    for name, kind in (("board.js", "javascript"), ("board.css", "css")):
        file = await leader.fetch("GET", f"{url}/services/board/{name}")
        assert kind in file.headers["Content-Type"] and len(file.text) > 500
    board = (await leader.fetch("GET", f"{url}/services/board/data")).json()
    first = next(row for row in board["room"]["exercises"] if row["name"] == "last-program")
    assert first["right"] == 1 and first["mistakes"] == {"a program stops by itself": 1}
    assert board["serving"] == ["seat-01"]

    headers = {"ticket": "../codes.json"}
    for action, form in (("unlock", {"seat": "leader"}), ("turn", headers), ("restart", {})):
        bad = await leader.fetch(
            "POST", f"{url}/services/board/{action}", urlencode(form), check=False
        )
        assert bad.status_code == 400, action
    told = await leader.fetch("POST", f"{url}/services/board/unlock", "seat=seat-02")
    assert codes["seat-02"] not in told.text
    stranger = Learner(url, "seat-02", codes["seat-02"])
    assert not await stranger.log_in()
    stranger.code = told.json()["says"].split()[-1]
    assert await stranger.log_in()
    await leader.fetch("POST", f"{url}/services/board/restart", "seat=seat-01")
    board = (await leader.fetch("GET", f"{url}/services/board/data")).json()
    assert board["serving"] == []

    refused = await learner.fetch("GET", f"{url}/services/board/data", check=False)
    assert refused.status_code == 403
    other = await leader.fetch("GET", f"{learner.server}/api/contents", check=False)
    assert '"content"' not in other.text

    # No token, whose note would be kept on the hub's disk, and nothing as large as that: the hub
    # says 400 and hangs up, which the proxy passes on, or calls 503 if it is still sending.
    too_large = "x" * 2**21
    for address, body, refusals in (
        ("users/seat-01/tokens", "{}", {403}),
        ("user", too_large, {400, 503}),
    ):
        headers = {"X-XSRFToken": learner._token(f"{url}/hub/home")}
        answer = await learner.browser.post(
            f"{url}/hub/api/{address}",
            content=body,
            headers={**headers, "Content-Type": "application/json"},
        )
        assert answer.status_code in refusals, (address, answer.text)
    # The one of above was the first of the five that are free.
    assert await guessing == [403] * 4 + [429] * 2


async def guess(url):
    """What comes of six wrong codes for a seat, and of requests without a name or a code."""
    stranger = Learner(url, "seat-01", "wrong")
    login = f"{url}/hub/login"
    await stranger.fetch("GET", login)
    token = f"&_xsrf={stranger._token(login)}"
    for form in ("", "&username=seat-02", "&password=x"):
        answer = await stranger.fetch("POST", login, token + form, check=False)
        assert answer.status_code == 403 and "not the code of that seat" in answer.text
    form = f"{token}&username=seat-01&password=wrong"
    answers = [stranger.fetch("POST", login, form, check=False) for _ in range(6)]
    answers = await asyncio.gather(*answers)
    said = max(answers, key=lambda each: each.status_code).text
    assert "The right one is let in at once" in said
    return sorted(answer.status_code for answer in answers)
