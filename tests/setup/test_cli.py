"""Each command does its one thing, and an error meant for a person is one sentence without a
traceback."""

import dataclasses
import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from course import cli
from course.benching import benchmarks
from course.benching import result as records
from course.cli import app
from tests.support.processes import run

COMMANDS = ("aot", "lab", "reset", "doctor", "verify", "bench", "recorded", "notebooks")


def course(*arguments: str, mode: str = "cpu") -> subprocess.CompletedProcess[str]:
    """Run `course` as a reader does, in CPU mode."""
    environ = {**os.environ, "COURSE_MODE": mode}
    return run(sys.executable, "-m", "course", *arguments, env=environ)


def refuses(ended: subprocess.CompletedProcess[str]) -> str:
    """The one sentence with which a command refused."""
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith("course: ")
    assert line.endswith(".")
    return line


@pytest.fixture
def vector_add(monkeypatch):
    """Vector add with its first cases alone; give it another ladder to let `course verify` see
    that."""
    whole = benchmarks.operation("vector_add")
    few = dataclasses.replace(whole, cases=whole.cases[:4])
    given = [few]
    monkeypatch.setattr(benchmarks, "operation", lambda name: {"vector_add": given[-1]}[name])
    return few, given.append


def test_without_a_command_the_commands_are_listed():
    ended = course()
    assert ended.returncode == 2
    assert [name for name in COMMANDS if name not in ended.stdout + ended.stderr] == []


def test_the_installed_command_and_the_module_are_one():
    installed = shutil.which("course", path=str(Path(sys.executable).parent))
    if installed is None:
        pytest.skip("the course is not installed here: make setup")
    ended = run(installed, "recorded", "vector_add")
    assert ended.stdout
    assert ended.stdout == course("recorded", "vector_add").stdout


def test_verify_says_right_in_all_for_every_version(vector_add):
    few, _ = vector_add
    result = CliRunner().invoke(app, ["verify", "vector_add"])
    assert result.exit_code == 0
    assert list(few.ladder)
    for name in few.ladder:
        assert f"{name}: right in all 4 cases." in result.stdout


def test_verify_of_a_wrong_version_ends_with_exit_code_1(vector_add):
    few, give = vector_add
    give(dataclasses.replace(few, ladder={"add": torch.add, "wrong": torch.sub}))
    result = CliRunner().invoke(app, ["verify", "vector_add"])
    assert result.exit_code == 1
    assert "add: right in all 4 cases." in result.stdout
    assert "wrong: right in all" not in result.stdout


@pytest.mark.parametrize("command", ["verify", "bench"])
def test_an_unknown_operation_is_refused_naming_those_there_are(command):
    sentence = refuses(course(command, "no_such_operation"))
    assert "no_such_operation" in sentence
    assert "vector_add" in sentence


def test_bench_without_a_gpu_points_to_what_was_recorded():
    ended = course("bench", "vector_add")
    assert "`course recorded vector_add`" in refuses(ended)
    assert ended.stdout == ""


def test_recorded_prints_the_table_with_its_machine():
    ended = course("recorded", "vector_add")
    assert (ended.returncode, ended.stderr) == (0, "")
    speeds = records.recorded("vector_add")
    assert ended.stdout == f"{speeds}\n\n"
    assert len(ended.stdout.split("\n")) > len({timing.x for timing in speeds.timings}) > 3
    assert f"Recorded on {speeds.machine.gpu}" in ended.stdout


def test_recorded_without_a_name_prints_all_there_is():
    printed = course("recorded").stdout
    assert [name for name in records.names() if str(records.recorded(name)) not in printed] == []


@pytest.mark.parametrize("name", ["no_such_thing", "../records", ""])
def test_recorded_of_what_is_not_there_names_what_is(name):
    assert "there is bias_gelu" in refuses(course("recorded", name))


@pytest.mark.parametrize("arguments", [["verify", "vector_add"], ["bench"], ["lab", "--version"]])
def test_a_mode_that_is_none_is_refused_in_a_sentence(arguments):
    assert "COURSE_MODE is 'nonsense': set it to cpu or gpu" in refuses(
        course(*arguments, mode="nonsense")
    )


def test_reset_of_no_lesson_is_refused_naming_those_there_are():
    assert "there is 00, 01" in refuses(course("reset", "99"))


def test_notebooks_of_a_lesson_that_is_not_there_are_refused():
    assert "There is no lesson '99'" in refuses(course("notebooks", "99", "--check"))


def test_notebooks_check_says_whether_they_agree_and_its_exit_code_tells_the_same():
    ended = course("notebooks", "--check")
    assert ended.stderr == ""
    assert ended.stdout.strip()
    assert ended.returncode == ("agrees with solutions/" not in ended.stdout)


def test_an_error_of_the_file_system_that_no_command_foresaw_is_a_sentence(monkeypatch):
    def fails():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/a/file")

    monkeypatch.setattr(cli, "app", fails)
    with pytest.raises(
        SystemExit,
        match=r"^course: /a/file: No space left on device: make room on the disk and try again\.$",
    ):
        cli.main()
