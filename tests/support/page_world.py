"""One of two worlds, in a process of its own: cells, answers and calls of a page that runs them.

python page_world.py OUT.json ROOM: with the page's stand-ins, which ROOM holds as the page gets
them, and nothing else; python page_world.py OUT.json: with PyTorch and libtriton themselves.
"""

import ast
import json
import os
import re
import sys
import sysconfig
import time
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parents[2]
OUT, ROOM = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None
sys.path.insert(0, str(ROOM or ROOT / "docs/site/in_browser"))
sys.path.append(str(ROOT / "tests/support"))
if ROOM is None:
    sys.path.append(str(ROOT))

ran: set[CodeType] = set()
if ROOM:
    import numpy  # noqa: F401  which asks what machine this is

    sysconfig.get_config_vars()
    # What a browser's Python lacks.
    sys.platform = "emscripten"
    del os.geteuid, time.thread_time
    sys.modules |= dict.fromkeys(("fcntl", "grp", "pwd", "resource", "termios"))
    sys.setprofile(lambda frame, event, _: ran.add(frame.f_code) if event == "call" else None)

import in_page  # noqa: E402
import libtriton_calls  # noqa: E402
import torch_calls  # noqa: E402

import course.exercises  # noqa: E402

course.exercises.__path__.append(str(ROOT / "course" / "exercises"))  # answers are in no page
from course.exercises.answers import changed, mistakes  # noqa: E402


def said(html: str) -> str:
    """The text of a verdict."""
    return re.sub(r"<[^>]*>", "", html)


def answers() -> dict[str, str]:
    """What is said of every solution and usual mistake of each exercise whose code a page runs."""
    found = {}
    for path in sorted((ROOT / "solutions").glob("[0-9][0-9]-*.py")):
        parts = re.split(r"^# %%(.*)\n", path.read_text(), flags=re.MULTILINE)
        cells = [
            source.strip()
            for head, source in zip(parts[1::2], parts[2::2], strict=True)
            if "runs-here" in head
        ]
        in_page.NAMES.clear()
        for cell, then in zip(cells, [*cells[1:], ""], strict=False):
            exercise = re.match(r"# exercise (\S+)", cell)
            wrong = mistakes(exercise[1]) if exercise and "def " in cell else []
            for mistake in wrong:
                if isinstance(mistake.answer, dict):
                    in_page.run("answer", changed(cell, mistake.answer))
                    found[f"{exercise[1]}: {mistake.name}"] = said(
                        in_page.run("check", then)["html"]
                    )
            if "verify(" not in cell and "replay(" not in cell:  # which compare by themselves
                shown = in_page.run("cell", cell)
                if cell.startswith("check("):
                    found[cell] = said(shown["html"])
    return found


def cells() -> dict[str, dict[str, str]]:
    """What each cell shows, run as a visitor runs them one after the other."""
    found = {}
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]-*.ipynb")):
        in_page.NAMES.clear()
        for cell in json.loads(path.read_text())["cells"]:
            if "runs-here" in cell["metadata"].get("tags", ()):
                source = "".join(cell["source"])
                found[f"{path.stem} {cell['id']}"] = in_page.run(cell["id"], source)
    return found


def functions(code: CodeType) -> list[CodeType]:
    """A module's functions, and those inside them."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return [*inner, *(deeper for each in inner for deeper in functions(each))]


def only_refuse(text: str) -> set[int]:
    """The lines in which functions begin that end by raising: what they refuse is not compared."""
    found = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.FunctionDef)]
    return {each.lineno for each in found if isinstance(each.body[-1], ast.Raise)}


def never_ran() -> list[str]:
    """The functions of stand-ins that nothing here has called."""
    names = []
    places = {(code.co_filename, code.co_firstlineno, code.co_name) for code in ran}
    for path in sorted(ROOM.rglob("*.py")):
        inside = path.relative_to(ROOM).as_posix()
        if inside.startswith(("torch/", "triton/_C/")) or "/" not in inside:
            text = path.read_text()
            for code in functions(compile(text, str(path), "exec")):
                place = code.co_filename, code.co_firstlineno, code.co_name
                if place not in places and code.co_firstlineno not in only_refuse(text):
                    names.append(f"{inside}:{code.co_firstlineno} {code.co_name}")
    return names


found = {"torch": torch_calls.calls(), "libtriton": libtriton_calls.calls(), "answers": answers()}
if ROOM:
    found |= {"cells": cells()}
    sys.setprofile(None)
    found |= {
        "never": never_ran(),
        "files": {
            name: getattr(sys.modules[name], "__file__", None) or ""
            for name in ("torch", "triton", "triton._C.libtriton", "course", "msgspec")
        },
    }
OUT.write_text(json.dumps(found))
