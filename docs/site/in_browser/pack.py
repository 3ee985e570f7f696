"""What a page loads to run its cells: the course, Triton's Python and the stand-ins, in one file.

Nothing of it is loaded before a visitor presses Run. Pyodide itself is pinned in `runtime.json`, by
its version and by the hash of each file: the page takes it from the site's own folder where
SITE_RUNTIME names a folder with its files, else from its public network.
"""

import base64
import hashlib
import io
import json
import os
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from course.files import write_whole
from docs.site import ROOT, SiteError

OWN = Path(__file__).parent
STAND_INS = OWN / "standins"
RUNTIME = json.loads((OWN / "runtime.json").read_text(encoding="utf-8"))
COURSE_LEAVES = (
    "exercises/answers/",
    "aot/", "benching/", "cli/", "diagnosing/", "lessons/lab_settings/", "simulating/", "workshop/",
)  # fmt: skip
"""Rooms of the course that a page has no use for."""
TRITON = re.compile(
    r"triton/(\w+\.py|language/(?!extra/hip).*|runtime/.*|compiler/.*"
    r"|tools/(__init__|tensor_descriptor|disasm)\.py|backends/\w+\.py)"
)
"""Of Triton's Python, what its interpreter needs."""
PYGMENTS = re.compile(
    r"pygments/(__init__|filters?|formatters?|lexer|modeline|plugin|regexopt|style|token|unistring"
    r"|util|(filters|formatters|lexers|styles)/(__init__|_mapping)|lexers/python)\.py"
)
"""What colors the lines of a replay."""
STUBS = re.compile(r"^# exercise .*\n", re.MULTILINE)
RUNS_HERE = "runs-here"
"""The tag of a cell that a page can run."""


class NoTritonError(SiteError):
    """What pages run is not installed here."""


def packed() -> bytes:
    """The archive. Raises SiteError where Triton is not installed."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as opened:
        for name, content in files():
            # Of one date, so that a site that is built again is the same.
            opened.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return archive.getvalue()


def files() -> Iterator[tuple[str, bytes]]:
    """Each file of the archive: where Python finds it there, and what it holds."""
    for path in sorted(STAND_INS.rglob("*.py")):
        name = path.relative_to(STAND_INS).as_posix()
        yield name.replace("libtriton/", "triton/_C/libtriton/"), path.read_bytes()
    yield "triton/_C/__init__.py", b""
    yield "in_page.py", (OWN / "in_page.py").read_bytes()
    course = ROOT / "course"
    for path in sorted(course.rglob("*")):
        name = path.relative_to(course).as_posix()
        if path.suffix in (".py", ".toml", ".json", ".js", ".css") and not name.startswith(
            COURSE_LEAVES
        ):
            yield f"course/{name}", path.read_bytes()
    for path in sorted((ROOT / "solutions").glob("*.py")):  # for the numbers of exercises
        text = "".join(STUBS.findall(path.read_text(encoding="utf-8")))
        yield f"course/content/solutions/{path.name}", text.encode()
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):  # for stubs and hints
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        if any(runs_here(cell) for cell in cells):
            kept = [{key: cell[key] for key in ("cell_type", "source")} for cell in cells]
            text = json.dumps({"cells": kept})
            yield f"course/content/notebooks/{path.name}", text.encode()
    yield from _of_package("triton", TRITON, RUNTIME["triton"])
    yield from _of_package("pygments", PYGMENTS, "")


def runs_here(cell: dict[str, Any]) -> bool:
    """Whether a page offers to run a cell of a notebook."""
    return RUNS_HERE in cell.get("metadata", {}).get("tags", ())


def _of_package(name: str, wanted: re.Pattern[str], version: str) -> Iterator[tuple[str, bytes]]:
    """The files of an installed package: of these tools, or of the course's own environment."""
    own = sorted((ROOT / ".venv").glob("lib/python*/site-packages"))
    for folder in (*map(Path, sys.path), *own):
        if (folder / name / "__init__.py").is_file():
            described = [*folder.glob(f"{name}-{version}*.dist-info")]
            if described:
                break
    else:
        raise NoTritonError(
            f"{name} {version} is not installed, and its Python is what pages run: `make setup`."
        )
    for path in sorted((folder / name).rglob("*.py")):
        if wanted.fullmatch(inside := path.relative_to(folder).as_posix()):
            yield inside, path.read_bytes()
    for path in sorted(described[0].rglob("LICENSE*")):
        yield f"{name}/{path.name}", path.read_bytes()


def write(folder: Path) -> None:
    """Write what a page loads when Run is pressed into a folder beside the site's script.

    Raises SiteError where Triton is not installed, or a file of the runtime is another one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "page.zip", packed())
    write_whole(folder / "worker.js", (OWN / "worker.js").read_text(encoding="utf-8"))
    runtime = {key: RUNTIME[key] for key in ("base", "packages", "numpy", "files")}
    if own := os.environ.get("SITE_RUNTIME"):
        runtime["base"] = runtime["packages"] = "pyodide/"
        (folder / "pyodide").mkdir(exist_ok=True)
        for name, pinned in RUNTIME["files"].items():
            content = Path(own, name).read_bytes()
            digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
            if pinned != f"sha256-{digest}":
                raise SiteError(f"{own}/{name} is not the file of Pyodide {RUNTIME['version']}.")
            write_whole(folder / "pyodide" / name, content)
    write_whole(folder / "runtime.json", json.dumps(runtime))
