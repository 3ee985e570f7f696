"""What the leader's command prepares and says, before the hub runs."""

import grp
import json
import os
import pwd
import re
import socket
import stat
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from course.errors import CourseError
from hub import seat_user, start, tools
from hub.__main__ import app
from hub.settings import Settings, codes, read, seat_name, write_private


@pytest.fixture
def settings(tmp_path):
    return Settings(folder=tmp_path / "room", seats=3, python="/usr/bin/python3")


@pytest.fixture
def somebody_else():
    """Become a user who has nothing here, until the test ends."""
    if os.getuid():
        pytest.skip("needs root: only it can become another user")
    os.seteuid(65534)
    yield
    os.seteuid(0)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_each_seat_has_a_code_of_its_own_which_stays_when_seats_are_added(settings):
    start.prepare(settings)
    known = codes(settings)
    assert list(known) == ["leader", "seat-01", "seat-02", "seat-03"]
    assert len(set(known.values())) == 4
    assert all(len(code.replace("-", "")) == 12 for code in known.values())
    more = codes(replace(settings, seats=5))
    assert {name: more[name] for name in known} == known and len(more) == 6


@pytest.mark.parametrize("content", ["", "{", "[]", '{"leader": 1}', "\x00"])
def test_damaged_codes_are_named_and_kept_since_new_ones_would_lock_all_out(settings, content):
    start.prepare(settings)
    settings.codes_file.write_text(content)
    with pytest.raises(CourseError, match=f"The codes in {settings.codes_file} cannot be read"):
        codes(settings)
    assert settings.codes_file.read_text() == content


def test_an_empty_code_is_replaced_since_anybody_would_know_it(settings):
    start.prepare(settings)
    known = codes(settings)
    settings.codes_file.write_text(json.dumps(known | {"seat-02": ""}))
    again = codes(settings)
    assert again["seat-02"] and again == known | {"seat-02": again["seat-02"]}


def test_who_did_not_start_the_workshop_is_told_to_use_sudo(settings, request):
    start.prepare(settings)
    codes(settings)
    request.getfixturevalue("somebody_else")
    for attempt in (lambda: read(settings.folder), lambda: codes(settings)):
        with pytest.raises(CourseError, match=r"belongs to another user: .* with sudo"):
            attempt()


def test_a_private_file_that_cannot_be_put_in_place_leaves_nothing(tmp_path):
    (tmp_path / "codes.json").mkdir()
    with pytest.raises(OSError):
        write_private(tmp_path / "codes.json", "secret")
    assert [path.name for path in tmp_path.iterdir()] == ["codes.json"]


def test_codes_that_cannot_be_written_say_what_to_do(settings):
    with pytest.raises(CourseError, match=r"codes\.json could not be written"):  # no folder
        codes(settings)


@pytest.mark.parametrize(
    "typed, name",
    [
        ("3", "seat-03"),
        (" Seat-03 ", "seat-03"),
        ("Leader", "leader"),
        ("²", "²"),
        ("9" * 5000,) * 2,
    ],
)
def test_who_logs_in_may_type_a_seats_number_and_anything_else_is_no_error(typed, name):
    assert seat_name(typed) == name


def test_what_is_the_leaders_alone_can_be_read_by_nobody_else(settings):
    start.prepare(settings)
    codes(settings)
    assert mode(settings.codes_file) == 0o600
    assert mode(settings.hub_folder) == 0o700
    assert mode(settings.folder) == 0o711
    assert mode(settings.queue_folder) == 0o1777


def test_sessions_start_in_the_environment_of_the_course(settings):
    start.prepare(settings)
    spec = settings.jupyter_folder / "kernels" / "python3" / "kernel.json"
    assert json.loads(spec.read_text())["argv"][0] == settings.python


def test_settings_are_read_back_as_they_were_written(settings):
    start.prepare(settings)
    assert read(settings.folder) == settings
    with pytest.raises(CourseError, match="There is no workshop in /nowhere"):
        read(Path("/nowhere"))


def test_the_leader_reads_every_code_and_what_this_host_does_not_hold(settings):
    start.prepare(settings)
    known = codes(settings)
    text = "\n".join(start.report(settings, known, ""))
    assert all(code in text for code in known.values())
    assert "3.0 GiB and 1 core(s)" in text and "unencrypted" in text
    assert "NOT kept apart" not in text
    shared = replace(settings, apart=False, certificate="c", key="k")
    text = "\n".join(start.report(shared, known, "control groups cannot be made here (x)"))
    assert "No seat is held to a limit, since control groups cannot be made here" in text
    assert "NOT kept apart" in text and "unencrypted" not in text and "https://" in text


def test_a_folder_too_long_for_sockets_is_refused():
    start.refuse_long(Settings(folder=Path("/srv/triton-workshop"), seats=3))
    with pytest.raises(CourseError, match="too long for the sockets of sessions"):
        start.refuse_long(Settings(folder=Path("/srv") / ("x" * 60), seats=3))


def test_a_port_that_is_taken_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CourseError, match=f"Port {port} of 127.0.0.1 cannot be used"):
            start.refuse_taken("127.0.0.1", port)


@pytest.mark.parametrize(
    "option, words",
    [
        ("--seats=0", "0 seats: take 1 to 400"),
        ("--seats=401", "401 seats: take 1 to 400"),
        ("--port=65533", "Port 65533: take 1 to 65532"),
        ("--port=0", "Port 0: take 1"),
        ("--memory=-1", "--memory -1: take a number larger than 0"),
        ("--memory=0", "--memory 0: take a number"),
        ("--memory=nan", "--memory nan: take a number"),
        ("--cores=0", "--cores 0: take a number"),
        ("--idle=0", "--idle 0: take a number"),
    ],
)
def test_a_number_that_no_room_can_have_is_refused_first(option, words):
    ended = CliRunner().invoke(app, ["start", "--seats=3", "--one-account", option])
    assert isinstance(ended.exception, CourseError)
    assert re.search(words, str(ended.exception))


def test_an_account_or_a_group_with_the_number_of_a_seat_is_named(settings, monkeypatch):
    seat_user.refuse_accounts(settings)
    number = settings.user("seat-02")
    for module, ask, answer in ((pwd, "getpwuid", "pw_name"), (grp, "getgrgid", "gr_name")):
        with monkeypatch.context() as patch:
            only = {number: SimpleNamespace(**{answer: "mallory"})}
            patch.setattr(module, ask, only.__getitem__)
            with pytest.raises(CourseError, match=f"mallory has the id {number}"):
                seat_user.refuse_accounts(settings)


@pytest.fixture
def hub_python(tmp_path, monkeypatch):
    """Put a script in the place of the Python that serves a room."""

    def put(script):
        python = tmp_path / "hub-python"
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        monkeypatch.setattr(tools, "PYTHON", python)

    return put


def test_a_server_that_a_seat_could_not_start_is_refused_before_the_hub_runs(settings, hub_python):
    shared = replace(settings, apart=False)
    start.prepare(shared)
    hub_python('[ "$PWD" = "$HOME" ] && [ "$3" = "import jupyterhub.singleuser" ]')
    seat_user.refuse_unreadable_tools(shared)
    hub_python("echo 'No module named jupyterhub' >&2; exit 1")
    with pytest.raises(CourseError, match=r"\(No module named jupyterhub\): put the course"):
        seat_user.refuse_unreadable_tools(shared)


def test_a_folder_that_seats_cannot_reach_is_refused_before_the_hub_runs(settings, hub_python):
    if os.getuid():
        pytest.skip("needs root: only it starts a server as another user")
    start.prepare(settings)
    hub_python("true")
    settings.folder.parent.chmod(0o700)
    with pytest.raises(CourseError, match="Permission denied"):
        seat_user.refuse_unreadable_tools(settings)


def test_a_python_that_the_seats_cannot_use_is_named(settings):
    gone = replace(settings, python="/nowhere/python", apart=False)
    with pytest.raises(CourseError, match="The seats cannot use /nowhere/python"):
        seat_user.refuse_unreadable(gone)


def test_the_proxy_is_pinned():
    proxy = json.loads(tools.PROXY_LOCK.read_text())["packages"]
    assert proxy["node_modules/configurable-http-proxy"]["version"] == "5.3.0"
    assert all("integrity" in package for name, package in proxy.items() if name)


def test_a_host_without_node_is_told_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install nodejs npm" in tools.missing()


def test_a_folder_that_somebody_else_prepared_is_refused(settings, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    settings.folder.mkdir()
    (settings.folder / "seats").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CourseError, match="seats is a link or belongs to another user"):
        start.prepare(settings)


def test_learners_are_told_an_address_that_they_can_open(settings):
    start.prepare(settings)
    assert "0.0.0.0" not in start.codes_text(settings)
