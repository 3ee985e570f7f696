"""course profile SCRIPT: the table of what was seen, however the script ends."""

import sys

import pytest

from tests.support.processes import ROOT, run

PROGRAM = ROOT / "tests" / "profiling" / "program.py"


def profiled(how, *options):
    """How `course profile` ends, on a script that ends in some way."""
    return run(sys.executable, "-m", "course", "profile", *options, str(PROGRAM), how)


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """A script with a fork, a program, a thread and a pool; with a page and a JSON file."""
    folder = tmp_path_factory.mktemp("profile")
    ended = profiled("others", "--html", str(folder / "p.html"), "--json", str(folder / "p.json"))
    return ended, folder


def test_a_script_shows_its_table_and_what_was_not_watched(others):
    ended, folder = others
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("sum ")  # the script's own
    kernels = [line.split()[1:3] for line in lines if line[:1].isdigit()]
    # The launches of the thread and of the pool are there; what the fork launched is not.
    assert sorted(kernels) == [["scale_kernel", "3"], ["take_kernel", "5"]]
    (note,) = (line for line in lines if line.startswith("note: "))
    assert "were not watched: os.fork (1), true (1)" in note
    assert "data-course-widget" in (folder / "p.html").read_text()


@pytest.mark.parametrize(
    ("how", "code", "says"),
    [
        ("error", 1, "The script failed: ValueError: on purpose"),
        ("at once", 4, "The script called os._exit."),
        ("killed", 137, "The script's process ended by signal 9: nothing was timed"),
    ],
)
def test_a_script_that_ends_otherwise_has_its_table_too(how, code, says):
    ended = profiled(how)
    assert ended.returncode == code
    assert "sum " in ended.stdout and f"note: {says}" in ended.stdout
    assert "scale_kernel" in ended.stdout and "take_kernel" in ended.stdout
    if how == "error":
        assert 'raise ValueError("on purpose")' in ended.stderr


def test_a_script_that_is_not_there_is_named():
    ended = run(sys.executable, "-m", "course", "profile", "nowhere.py")
    assert ended.returncode == 1 and ended.stderr == "course: There is no file nowhere.py.\n"


@pytest.mark.parametrize("text", ["{}", "[]", "no JSON"])
def test_what_it_is_to_be_compared_with_is_read_before_the_script_runs(tmp_path, text):
    (tmp_path / "script.py").write_text("print('it ran')")
    (tmp_path / "before.json").write_text(text)
    ended = run(
        sys.executable, "-m", "course", "profile", "--against", "before.json", "script.py",
        cwd=tmp_path,
    )  # fmt: skip
    assert ended.returncode == 1 and ended.stdout == ""
    assert "before.json is no profile, as `course profile --json" in ended.stderr


def test_a_gpu_that_nobody_knows_is_refused_before_the_script_runs(tmp_path):
    (tmp_path / "script.py").write_text("print('it ran')")
    ended = run(
        sys.executable, "-m", "course", "profile", "--target", "H201", "script.py", cwd=tmp_path
    )
    assert ended.returncode == 1 and ended.stdout == ""
    assert "There are no peak figures for 'H201'" in ended.stderr
