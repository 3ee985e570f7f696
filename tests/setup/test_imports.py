"""What a file imports is read from its text: at once, in turn, and where a name is asked for."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.imports import imported
from tests.support.processes import ROOT, run

LOADED = """
import json, sys
names = [name for name in sys.modules if name.split(".")[0] in ("course", "kernels", "tests")]
print(json.dumps([sys.modules[name].__file__ for name in names]))
"""


@pytest.fixture
def write(tmp_path):
    """Write files into a project of their own; the names of those that the first imports."""

    def write(**texts):
        for name, text in texts.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        first = tmp_path / f"{next(iter(texts)).replace('__', '/')}.py"
        return {path.relative_to(tmp_path).as_posix() for path in imported(first, tmp_path)}

    return write


def test_modules_and_names_count_at_once_and_in_turn(write):
    files = write(
        a="from b import (\n    one,\n    two,\n)", b="import c as d, e", c="", e="", f=""
    )
    assert files == {"a.py", "b.py", "c.py", "e.py"}


def test_an_import_within_a_function_or_a_text_counts(write):
    assert write(a="def f():\n    from b import c", b="") == {"a.py", "b.py"}
    assert write(a='PROGRAM = """\nimport b\n"""', b="") == {"a.py", "b.py"}


def test_relative_imports_start_at_their_package(write):
    texts = {"p__a": "from . import b\nfrom .c import d\nfrom ..q.e import f", "p__b": ""}
    texts |= {"p__c": "", "p__d": "", "q__e": "", "b": ""}
    assert write(**texts) == {"p/a.py", "p/b.py", "p/c.py", "q/e.py"}


def test_modules_that_import_one_another_have_an_end(write):
    assert write(a="import b", b="import a") == {"a.py", "b.py"}


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("from course import cost", "course/tracing/api.py"),
        ("import course\ncourse.cost(1)", "course/tracing/api.py"),
        ("from course import draw\ndraw.roofline(1)", "course/draw/roofline_plot.py"),
        ("import course\ncourse.draw.tiles(1)", "course/draw/tile_sketches.py"),
    ],
)
def test_a_name_that_is_loaded_when_it_is_asked_for_counts_there_alone(text, file, tmp_path):
    asks, does_not = tmp_path / "asks.py", tmp_path / "does_not.py"
    asks.write_text(text)
    does_not.write_text("from course import draw, errors")
    assert ROOT / file in imported(asks, ROOT)
    assert ROOT / file not in imported(does_not, ROOT)


def test_whatever_python_loads_is_among_it(tmp_path):
    program = "from course.diagnosing import api\nfrom course.exercises import check_code\n"
    ended = run(sys.executable, "-c", program + LOADED, check=True)
    loaded = {Path(file) for file in json.loads(ended.stdout)}
    assert len(loaded) > 100
    (tmp_path / "program.py").write_text(program)
    assert loaded <= imported(tmp_path / "program.py", ROOT)
