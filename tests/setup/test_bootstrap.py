"""Whatever Python runs the set-up, one that serves is found, or a sentence says what to do."""

import ast
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from course import bootstrap
from tests.support.set_up import program, stops_with

SCRIPT = Path(bootstrap.__file__)


stops = partial(stops_with, bootstrap.Stop)


def test_an_old_python_can_read_the_script_and_it_imports_the_standard_library_alone():
    nodes = list(ast.walk(ast.parse(SCRIPT.read_text(), feature_version=(3, 4))))
    imported = [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
    assert {"os", "sys"} <= set(imported) <= {"os", "platform", "subprocess", "sys"}
    new = (ast.JoinedStr, ast.AnnAssign, ast.Starred, ast.NamedExpr, ast.ImportFrom)
    assert [node for node in nodes if isinstance(node, new)] == []


def old_pythons() -> list[str]:
    """Pythons of this machine that are too old, from Python 2 on."""
    folders = [*map(Path, os.get_exec_path()), *Path.home().glob(".pyenv/versions/*/bin")]
    names = ("python2.7", *(f"python3.{minor}" for minor in range(4, 11)))
    paths = [str(folder / name) for name in names for folder in folders]
    return [path for path in paths if Path(path).is_file() and starts(path)]


def starts(python: str) -> bool:
    return not subprocess.run([python, "-c", ""], capture_output=True).returncode


def test_the_old_pythons_of_this_machine_say_a_sentence_or_hand_over(tmp_path):
    if not (pythons := old_pythons()):
        pytest.skip("needs a Python that is too old")
    for python in pythons:
        command, environ = [python, str(SCRIPT)], {**os.environ, "PATH": str(tmp_path)}
        ended = subprocess.run(command, env=environ, capture_output=True, text=True)
        assert (ended.returncode, ended.stdout) == (1, ""), python
        (line,) = ended.stderr.splitlines()
        assert "is too old and no other was found: install Python 3.12" in line
        program(tmp_path, "python3.12", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        environ["TORCH"] = "nonsense"
        ended = subprocess.run(command, env=environ, capture_output=True, text=True)
        assert ended.stderr.startswith("Set-up: TORCH is 'nonsense'"), python
        (tmp_path / "python3.12").unlink()


@pytest.mark.parametrize("version", [bootstrap.OLDEST, (3, 12), bootstrap.NEWEST])
def test_a_fit_python_is_used(monkeypatch, version):
    monkeypatch.setattr(sys, "version_info", (*version, 1))
    assert bootstrap.choose_python() == sys.executable


# What a version manager leaves on PATH, and a script whose interpreter is missing.
@pytest.mark.parametrize("shim", ["#!/bin/sh\nexit 127\n", "#!/nowhere/at/all\n"])
@pytest.mark.parametrize(("version", "word"), [((3, 8, 1), "old"), ((3, 14, 0), "new")])
def test_an_unfit_python_hands_over_to_one_that_starts_or_says_what_to_install(
    monkeypatch, tmp_path, version, word, shim
):
    monkeypatch.setattr(sys, "version_info", version)
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}{os.pathsep}{tmp_path / 'bin'}")
    for name in bootstrap.PYTHONS:
        program(tmp_path / "shims", name, shim)
    sentence = stops(bootstrap.choose_python)
    assert f"Python {version[0]}.{version[1]} is too {word}" in sentence
    assert "apt-get install python3.12-venv" in sentence
    good = str(program(tmp_path / "bin", "python3.12", "#!/bin/sh\nexit 0\n"))
    started = []
    monkeypatch.setattr(os, "execv", lambda *arguments: started.append(arguments) or sys.exit())
    with pytest.raises(SystemExit):
        bootstrap.main(["--dev"])
    assert started == [(good, [good, str(SCRIPT.with_name("environments.py")), "--dev"])]


@pytest.mark.parametrize(
    ("system", "words"),
    [
        ("darwin", "for macOS: open"),
        ("win32", "WSL2 and run make lab"),
        ("freebsd14", "for freebsd14"),
    ],
)
def test_a_system_without_wheels_is_pointed_to_the_dev_container(system, words):
    sentence = stops(bootstrap.check_system, system)
    assert words in sentence
    assert "dev container" in sentence
    assert ("WSL2" in sentence) == (system == "win32")


def test_an_unknown_machine_is_refused(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert "this is riscv64" in stops(bootstrap.check_system, "linux")


def test_the_site_is_built_on_any_system(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(os, "execv", lambda *arguments: sys.exit(7))
    with pytest.raises(SystemExit):
        bootstrap.main(["--site"])
    assert bootstrap.main([]) == 1
