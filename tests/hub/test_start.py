"""What the leader's command prepares and says, before the hub runs."""

import errno
import json
import os
import re
import socket
import stat
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from course.errors import CourseError
from hub import learners_work, one_account, printed_codes, start, tools
from hub.__main__ import app
from hub.codes import codes
from hub.settings import Settings, read, seat_name


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
    start.make_folder(settings)
    known = codes(settings)
    assert list(known) == ["leader", "seat-01", "seat-02", "seat-03"]
    assert len(set(known.values())) == 4
    assert all(len(code.replace("-", "")) == 12 for code in known.values())
    more = codes(replace(settings, seats=5))
    assert {name: more[name] for name in known} == known and len(more) == 6


@pytest.mark.parametrize("content", ["", "{", "[]", '{"leader": 1}', "\x00"])
def test_damaged_codes_are_named_and_kept_since_new_ones_would_lock_all_out(settings, content):
    start.make_folder(settings)
    settings.codes_file.write_text(content)
    with pytest.raises(CourseError, match=f"The codes in {settings.codes_file} cannot be read"):
        codes(settings)
    assert settings.codes_file.read_text() == content


def test_an_empty_code_is_replaced_since_anybody_would_know_it(settings):
    start.make_folder(settings)
    known = codes(settings)
    settings.codes_file.write_text(json.dumps(known | {"seat-02": ""}))
    again = codes(settings)
    assert again["seat-02"] and again == known | {"seat-02": again["seat-02"]}


def test_who_did_not_start_the_workshop_is_told_to_use_sudo(settings, request):
    start.make_folder(settings)
    settings.write()
    codes(settings)
    request.getfixturevalue("somebody_else")
    for attempt in (lambda: read(settings.folder), lambda: codes(settings)):
        with pytest.raises(CourseError, match=r"belongs to another user: .* with sudo"):
            attempt()


def test_codes_that_cannot_be_put_in_place_leave_nothing(settings, monkeypatch):
    start.make_folder(settings)
    there = set(settings.folder.iterdir())
    monkeypatch.setattr(Path, "replace", no_room)
    with pytest.raises(CourseError, match=r"codes\.json could not be written .*make room"):
        codes(settings)
    assert set(settings.folder.iterdir()) == there


def no_room(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_codes_that_cannot_be_written_say_what_to_do(settings):
    nowhere = Path("/proc/room")  # no folder can be made there
    with pytest.raises(CourseError, match=r"codes\.json could not be written"):
        codes(replace(settings, folder=nowhere))


def test_codes_are_private_while_they_are_written_too(settings, monkeypatch):
    start.make_folder(settings)
    modes, own = [], Path.replace
    monkeypatch.setattr(
        Path, "replace", lambda new, path: (modes.append(mode(new)), own(new, path))[1]
    )
    old = os.umask(0)
    codes(settings)
    os.umask(old)
    assert modes == [0o600] and mode(settings.codes_file) == 0o600


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
    start.make_folder(settings)
    codes(settings)
    assert mode(settings.codes_file) == 0o600
    assert mode(settings.hub_folder) == 0o700
    assert mode(settings.folder) == 0o700


def test_settings_are_read_back_as_they_were_written(settings):
    start.make_folder(settings)
    settings.write()
    assert read(settings.folder) == settings
    with pytest.raises(CourseError, match="There is no workshop in /nowhere"):
        read(Path("/nowhere"))


def test_the_leader_reads_every_code_and_what_this_host_does_not_hold(settings):
    start.make_folder(settings)
    known = codes(settings)
    text = "\n".join(start.report(settings, known))
    assert all(code in text for code in known.values())
    assert "3.0 GiB, 1 core(s), and a disk of 2.0 GiB" in text and "unencrypted" in text
    assert "NOT kept apart" not in text
    shared = replace(settings, apart=False, certificate="c", key="k")
    text = "\n".join(start.report(shared, known))
    assert "NOT kept apart" in text and "unencrypted" not in text and "https://" in text


def test_a_folder_too_long_for_sockets_is_refused():
    one_account.refuse_long(Settings(folder=Path("/srv/triton-workshop"), seats=3))
    with pytest.raises(CourseError, match="too long for the sockets of sessions"):
        one_account.refuse_long(Settings(folder=Path("/srv") / ("x" * 60), seats=3))


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
        ("--memory=-1", "--memory -1: take 1 to"),
        ("--memory=1e-9", "--memory 1e-09: take 1 to"),
        ("--memory=2048", "--memory 2048: take 1 to"),
        ("--memory=nan", "--memory nan: take 1 to"),
        ("--cores=0", "--cores 0: take 0.1 to"),
        ("--idle=0", "--idle 0: take 1 to"),
        ("--disk=1e9", r"--disk 1e\+09: take 0.1 to"),
        ("--address=", "--address: name an address"),
        ("--lessons=00,99", "There is no lesson '99'"),
    ],
)
def test_a_number_that_no_room_can_have_is_refused_first(option, words):
    ended = CliRunner().invoke(app, ["start", "--seats=3", option])
    assert isinstance(ended.exception, CourseError)
    assert re.search(words, str(ended.exception))


def test_one_account_is_refused_to_root_since_every_learner_would_be_root(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 0)
    ended = CliRunner().invoke(app, ["start", "--seats=3", "--one-account"])
    assert "would make every learner root" in str(ended.exception)


def test_a_certificate_that_is_none_is_refused_first(settings):
    start.make_folder(settings)
    told = replace(settings, certificate="/etc/passwd", key="/etc/passwd", port=28_000)
    with pytest.raises(CourseError, match="are no certificate and its key"):
        start.refuse_pair(told)


def test_an_address_of_no_host_is_named():
    with pytest.raises(CourseError, match=r"--address nowhere\.invalid: this host has no such"):
        start.refuse_taken("nowhere.invalid", 28_000)


def test_one_room_is_served_from_a_folder(settings):
    start.make_folder(settings)
    with (
        start.only_one(settings),
        pytest.raises(CourseError, match=r"A room runs in .* already"),
        start.only_one(settings),
    ):
        pass
    with start.only_one(settings):
        pass


def test_rooms_and_seats_have_addresses_of_their_own(settings):
    rooms = [replace(settings, seats=400, port=port) for port in (8000, 8004, 8400)]
    networks = [room.network(name) for room in rooms for name in ("leader", *room.names)]
    assert len(set(networks)) == 3 * 401
    assert all(room.network(name).subnet_of(room.subnet) for room in rooms for name in room.names)


def test_the_page_of_slips_has_every_seat_and_its_code_and_not_the_leaders(
    settings, monkeypatch, tmp_path
):
    start.make_folder(settings)
    known = codes(settings)
    monkeypatch.setattr(printed_codes, "picture", lambda url: f"<svg>{url}</svg>")
    printed_codes.write(settings, tmp_path / "slips.html")
    page = (tmp_path / "slips.html").read_text()
    assert mode(tmp_path / "slips.html") == 0o600
    assert page.count("<svg>") == 3 and known["leader"] not in page
    assert all(known[name] in page and name in page for name in settings.names)


def test_what_a_learner_takes_home_is_one_file_of_their_work(settings, tmp_path):
    home = settings.home("seat-02")
    for name in ("work/01.ipynb", "own/notes.txt", ".cache/big", "solutions/00.py"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(name)
    (file,) = learners_work.take_home(settings, tmp_path / "out")
    with tarfile.open(file) as packed:
        files = {each.name for each in packed if each.isfile()}
    assert file.name == "seat-02.tar.gz" and mode(file) == 0o600
    assert files == {"seat-02/work/01.ipynb", "seat-02/own/notes.txt"}


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
        start.make_folder(settings)
