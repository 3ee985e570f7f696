"""Lessons as notebooks to take along: for Colab, Kaggle, or a Jupyter somewhere else.

A first cell makes the course ready on the PyTorch that is there. The committed notebooks do not
have it: in a lab of one's own there is nothing to make ready.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from course import pins
from course.lessons.learner_copies import without_outputs

from . import ROOT, SiteError
from .lesson_pages import Sources

SAYS = """The next cell makes the course ready here: run it first. It takes about a minute, keeps
the PyTorch that this machine has, and puts Triton {triton} beside it; in a lab of your own it does
nothing. Kernels run on an L4, A100, H100 or a newer GPU. A T4 is too old, since Triton no longer
supports it: the course is in CPU mode there, as on a machine without a GPU. Kernels are then
interpreted, and speeds are shown as recorded."""
SET_UP = """import importlib.util
import sys

# Triton comes last, since pip would put back the one that PyTorch asks for.
if importlib.util.find_spec("course") is None:
    %pip install -q {wheel}
    %pip install -q --no-deps triton=={triton}
    importlib.invalidate_caches()
if "google.colab" in sys.modules:  # it shows widgets of others once it is asked to
    from google.colab import output

    output.enable_custom_widget_manager()"""


def write(sources: Sources, site: Path) -> None:
    """Write into the site the course's wheel, and in notebooks/ each lesson with its first cell."""
    wheel = f"{sources.address.site or '..'}/{build_wheel(site).name}"
    folder = site / "notebooks"
    folder.mkdir(exist_ok=True)
    for path in sorted((sources.root / "notebooks").glob("[0-9][0-9]-*.ipynb")):
        notebook = with_first_cell(path.read_bytes(), wheel)
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown" and sources.address:
                text = "".join(cell["source"])
                file = f"notebooks/{path.name}"
                cell["source"] = sources.relink(text, file, base=sources.address.site)
        (folder / path.name).write_text(json.dumps(notebook, indent=1), encoding="utf-8")


def with_first_cell(notebook: bytes, wheel: str) -> dict[str, Any]:
    """The notebook without outputs, with a cell behind its title that makes the course ready.

    wheel: the course's wheel, as pip is told of it: an address or a path.
    """
    says = {"cell_type": "markdown", "id": "ready-text", "metadata": {}}
    code = {"cell_type": "code", "id": "ready", "metadata": {}, "execution_count": None}
    filled = {"triton": pins.TRITON, "wheel": wheel}
    ready = [
        says | {"source": SAYS.format(**filled)},
        code | {"source": SET_UP.format(**filled), "outputs": []},
    ]
    content: dict[str, Any] = json.loads(without_outputs(notebook))
    title, *cells = content["cells"]
    return content | {"cells": [title, *ready, *cells]}


def build_wheel(folder: Path) -> Path:
    """Build the course's wheel into a folder, with no network; return its path."""
    for old in folder.glob("triton_course-*.whl"):
        old.unlink()
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    command += ["--disable-pip-version-check", "--no-index", "--wheel-dir", str(folder), str(ROOT)]
    with tempfile.TemporaryDirectory() as own:  # two builds at once must not share a folder
        settings = Path(own) / "setup.cfg"
        settings.write_text(f"[build]\nbuild_base = {own}\n[egg_info]\negg_base = {own}\n")
        environ = os.environ | {"DIST_EXTRA_CONFIG": str(settings)}
        ended = subprocess.run(command, capture_output=True, text=True, env=environ)
    if ended.returncode:
        raise SiteError(f"The course's wheel could not be built:\n{ended.stderr}")
    return next(folder.glob("triton_course-*.whl"))
