"""A notebook that is taken along makes the course ready, and keeps the PyTorch that is there."""

import json
import sys

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from course import pins
from docs.site import ROOT, elsewhere

PUBLISHED = (ROOT / "notebooks" / "00-your-first-kernel.ipynb").read_bytes()
NOTEBOOK = json.loads(PUBLISHED)


@pytest.fixture
def ready():
    """Run the first cell in a session that has only what is given; return pip's commands."""
    cells = elsewhere.with_first_cell(PUBLISHED, "../course.whl")["cells"]
    (source,) = (cell["source"] for cell in cells if cell["id"] == "ready")
    code = TransformerManager().transform_cell(source)

    def ready(has_course, monkeypatch):
        commands = []

        class Shell:
            run_line_magic = staticmethod(lambda name, line: commands.append(f"{name} {line}"))

        find_spec = (lambda name: object()) if has_course else (lambda name: None)
        monkeypatch.setattr("importlib.util.find_spec", find_spec)
        exec(code, {"get_ipython": Shell})
        return commands

    return ready


def test_pip_takes_the_course_first_and_triton_last_without_what_it_asks_for(ready, monkeypatch):
    # The other way round pip puts the Triton back that the image's PyTorch asks for.
    assert ready(False, monkeypatch) == [
        "pip install -q ../course.whl",
        f"pip install -q --no-deps triton=={pins.TRITON}",
    ]


def test_where_the_course_is_there_it_does_nothing(ready, monkeypatch):
    assert ready(True, monkeypatch) == []


def test_in_colab_it_asks_for_widgets_of_others(ready, monkeypatch):
    asked = []
    output = type("output", (), {"enable_custom_widget_manager": lambda: asked.append(1)})
    monkeypatch.setitem(sys.modules, "google.colab", type("colab", (), {"output": output}))
    ready(True, monkeypatch)
    assert asked == [1]


def test_it_stands_behind_the_title_and_outputs_are_left_out():
    cells = elsewhere.with_first_cell(PUBLISHED, "x.whl")["cells"]
    assert cells[0]["source"] == NOTEBOOK["cells"][0]["source"]
    assert [cell["id"] for cell in cells[1:3]] == ["ready-text", "ready"]
    assert "CPU mode" in cells[1]["source"] and "T4" in cells[1]["source"]
    assert not any(cell["outputs"] for cell in cells if cell["cell_type"] == "code")
    assert any(cell["outputs"] for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code")
    assert [cell["id"] for cell in cells[3:]] == [cell["id"] for cell in NOTEBOOK["cells"][1:]]
