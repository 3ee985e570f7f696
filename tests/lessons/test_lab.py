"""JupyterLab opens at the first lesson, for this machine alone and behind a token."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest

from course.errors import CourseError
from course.lessons import lab, learner_copies
from tests.support.processes import PATIENCE_S, first_answer

ROOT = Path(__file__).parents[2]
LESSONS = {path.name for path in (ROOT / "notebooks").glob("[0-9][0-9]-*.ipynb")}


stay = urllib.request.HTTPRedirectHandler()
stay.redirect_request = lambda *_: None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(server, path: str, token: str | None = None, **request) -> tuple[int, str]:
    """The status and the text of an answer; a redirection is an answer too."""
    headers = {"Authorization": f"token {token}"} if token else {}
    asked = urllib.request.Request(
        f"http://127.0.0.1:{server.port}{path}", headers=headers, **request
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), stay)
    try:
        with opener.open(asked, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get("Location", "")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """`course lab`, serving; ended when the tests of this file are."""
    pytest.importorskip("jupyterlab")
    psutil = pytest.importorskip("psutil")
    home, port = tmp_path_factory.mktemp("home"), free_port()
    # A lesson of an earlier form of the course, if one lies there, is taken away on purpose.
    before = {path.name for path in (ROOT / "work").glob("*") if path.suffix != ".ipynb"}
    # Sockets of sessions have short paths; pytest's own folders are too deep for them.
    with tempfile.TemporaryDirectory(prefix="lab-") as runtime:
        environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("JUPYTER", "IPYTHON", "XDG_"))
        }
        environ |= {"HOME": str(home), "JUPYTER_RUNTIME_DIR": runtime, "COURSE_MODE": "cpu"}
        options = ["--no-browser", f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
        command = [sys.executable, "-m", "course", "lab", *options]
        log = home / "log"
        with log.open("w") as output:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environ, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            info = Path(runtime) / f"jpserver-{process.pid}.json"
            found = SimpleNamespace(
                port=port, token="", before=before, log=log, runtime=Path(runtime)
            )
            found.process = psutil.Process(process.pid)
            first_answer(lambda: ask(found, "/api"), process, log)
            found.token = first_answer(lambda: json.loads(info.read_text())["token"], process, log)
            yield found
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def listening(process) -> list[tuple[str, int]]:
    return [
        tuple(each.laddr) for each in process.net_connections("inet") if each.status == "LISTEN"
    ]


def test_the_lessons_are_in_work_and_what_was_there_still_is(server):
    after = {path.name for path in (ROOT / "work").glob("*")}
    assert LESSONS
    assert LESSONS | server.before <= after
    assert "CPU mode: COURSE_MODE=cpu asks for it" in server.log.read_text()


def test_it_listens_on_this_machine_alone(server):
    assert listening(server.process) == [("127.0.0.1", server.port)]


@pytest.mark.parametrize("token", [None, "wrong"])
def test_without_the_token_nothing_is_shown(server, token):
    assert len(server.token) >= 32
    status, _ = ask(server, "/api/contents/work", token)
    assert status == 403
    status, location = ask(server, f"/lab/tree/work/{lab.FIRST}", token)
    assert status in (302, 403)
    assert status == 403 or location.startswith("/login")


def test_with_the_token_the_lessons_are_shown_and_it_opens_at_the_first(server):
    status, listed = ask(server, "/api/contents/work", server.token)
    assert status == 200
    assert {each["name"] for each in json.loads(listed)["content"]} >= LESSONS
    status, location = ask(server, "/", server.token)
    assert (status, location.rstrip("?")) == (302, f"/lab/tree/work/{lab.FIRST}")
    status, page = ask(server, f"/lab/tree/work/{lab.FIRST}", server.token)
    assert (status, "JupyterLab" in page) == (200, True)


def test_a_session_runs_code_over_sockets_that_only_this_user_can_reach(server):
    import websocket

    status, started = ask(
        server, "/api/kernels", server.token, data=b'{"name": "python3"}', method="POST"
    )
    assert status == 201
    path = f"/api/kernels/{json.loads(started)['id']}"
    try:
        address = f"ws://127.0.0.1:{server.port}{path}/channels"
        channels = websocket.create_connection(
            address, timeout=PATIENCE_S, header=[f"Authorization: token {server.token}"]
        )
        header = {
            "msg_id": "1",
            "msg_type": "execute_request",
            "session": "1",
            "username": "",
            "version": "5.3",
        }
        content = {"code": "import course\nprint(course.MODE)", "silent": False}
        message = {
            "channel": "shell",
            "header": header,
            "parent_header": {},
            "metadata": {},
            "content": content,
        }
        channels.send(json.dumps(message))
        while (answer := json.loads(channels.recv()))["msg_type"] != "stream":
            pass
        assert answer["content"]["text"] == "CPU mode: COURSE_MODE=cpu asks for it\n"
        channels.close()
        (file,) = server.runtime.glob("kernel-*.json")
        connection = json.loads(file.read_text())
        assert connection["transport"] == "ipc"
        ports = [
            connection[f"{name}_port"] for name in ("shell", "iopub", "stdin", "control", "hb")
        ]
        assert all(Path(f"{connection['ip']}-{port}").is_socket() for port in ports)
        assert file.stat().st_mode & 0o077 == 0
    finally:
        ask(server, path, server.token, method="DELETE")


def test_the_arguments_keep_it_on_this_machine_behind_its_token(tmp_path):
    arguments = lab.arguments(tmp_path)
    assert "--ServerApp.ip=127.0.0.1" in arguments
    assert f"--ServerApp.root_dir={tmp_path}" in arguments
    assert f"--LabApp.default_url=/lab/tree/work/{lab.FIRST}" in arguments
    assert lab.FIRST in LESSONS
    weak = (
        "token",
        "password",
        "allow_origin",
        "disable_check_xsrf",
        "allow_remote",
        "allow_unauthenticated",
    )
    assert [each for each in arguments if any(word in each for word in weak)] == []
    assert ("--allow-root" in arguments) == (os.geteuid() == 0)


@pytest.mark.parametrize(("depth", "transport"), [(1, "ipc"), (12, "tcp")])
def test_sessions_use_sockets_in_the_file_system_where_their_paths_are_short_enough(
    monkeypatch, tmp_path, depth, transport
):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", "/run" + "/directory" * depth)
    used = [
        each for each in lab.arguments(tmp_path) if each.startswith("--KernelManager.transport=")
    ]
    assert (used or ["--KernelManager.transport=tcp"]) == [f"--KernelManager.transport={transport}"]


def test_a_system_without_triton_is_refused_before_anything_is_copied(monkeypatch):
    monkeypatch.setattr(learner_copies, "copy_lessons", lambda: pytest.fail("copied"))
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(CourseError, match="Triton runs on Linux"):
        lab.start([])


@pytest.fixture
def started(monkeypatch):
    """The commands that `lab.start` becomes, with nothing copied and nothing started."""
    commands: list[list[str]] = []
    monkeypatch.setattr(learner_copies, "copy_lessons", learner_copies.Copied)
    monkeypatch.setattr(os, "execve", lambda _, command, __: commands.append(command))
    return commands


@pytest.mark.parametrize("number", ["04", "4"])
def test_it_opens_at_the_lesson_that_is_named_and_passes_the_rest_on(started, number):
    lab.start([number, "--no-browser"])
    (command,) = started
    assert "--LabApp.default_url=/lab/tree/work/04-which-block-size.ipynb" in command
    assert command[-1] == "--no-browser"


def test_without_a_number_it_opens_at_the_first_and_passes_everything_on(started):
    lab.start(["--port", "9000"])
    (command,) = started
    assert f"--LabApp.default_url=/lab/tree/work/{lab.FIRST}" in command
    assert command[-2:] == ["--port", "9000"]


def test_an_option_that_is_given_takes_the_place_of_the_courses_own(started):
    lab.start(["--ServerApp.ip=0.0.0.0"])
    (command,) = started
    assert [each for each in command if each.startswith("--ServerApp.ip=")] == [
        "--ServerApp.ip=0.0.0.0"
    ]
    assert any(each.startswith("--ServerApp.root_dir=") for each in command)


def test_a_lesson_that_is_not_there_is_refused_with_those_that_are(started):
    with pytest.raises(CourseError, match=r"no lesson '77': there is 00, 01"):
        lab.start(["77"])
    assert started == []


def test_what_was_copied_is_reported_with_how_to_get_the_newer_lesson():
    copied = learner_copies.Copied(
        new=["00-a.ipynb", "01-b.ipynb"], renewed=["02-c.ipynb"], behind=["03-d.ipynb"]
    )
    new, renewed, behind = lab.report(copied)
    assert new == "New in work/: 00-a.ipynb, 01-b.ipynb."
    assert "02-c.ipynb" in renewed
    assert behind.startswith("03-d.ipynb has a newer version")
    assert "`course reset 03`" in behind
    assert lab.report(learner_copies.Copied()) == []
