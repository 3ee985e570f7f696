"""What Triton's sanitizers say of a function on a GPU, each in a fresh process."""

import importlib.util
import pickle
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import triton

from course import DEVICE, MODE
from course.errors import CourseError
from course.isolate.commands import run_source
from course.isolate.function_source import Source, keep_lines
from course.tracing.bounds import Problem
from course.tracing.own_line import OwnLine

from .inputs import Case

SANITIZERS = ("consan", "gsan", "iisan")
"""Those that find something by themselves; fpsan makes results comparable to the bit."""
MOST_ELEMENTS = 2**18
"""Of a case that is launched under them: each access costs many instructions more."""
MOST_S = 300
ASSERTION = re.compile(r"^(.*?):(\d+): .*?Assertion `(.*?)(?:` failed.*)?$", re.MULTILINE)
"""What a device prints for an assertion that fails; the driver may cut a long one off."""
BEGUN = re.compile(r"^case \d+$", re.MULTILINE)
LAUNCHES = """import sys
sys.path[:] = {path!r}
from course.verifying.sanitizers import launch
launch({packed!r})
"""
BY_VARIABLE = """import os, runpy
os.environ["TRITON_INSTRUMENTATION_MODE"] = {sanitizer!r}
runpy.run_path({script!r})
"""
BY_TOOL = """from triton.tools import gsan
gsan.main([{script!r}])
"""


@dataclass(frozen=True)
class Said:
    """What a sanitizer says of a function."""

    sentence: str
    problem: Problem | None = None
    """What it found, …"""
    case: int = 0
    """… and the number of the case in which it did."""


def check_sanitizers(names: Sequence[str]) -> None:
    """Raise CourseError unless these can be asked here."""
    if unknown := [name for name in names if name not in SANITIZERS]:
        raise CourseError(f"verify knows the sanitizers {', '.join(SANITIZERS)}; not {unknown[0]}.")
    if names and not MODE.gpu:
        raise CourseError(f"Sanitizers look at launches on a GPU: {MODE}.")
    if names and importlib.util.find_spec("triton.tools.gsan") is None:
        raise CourseError(f"Sanitizers come with Triton 3.9; this is {triton.__version__}.")


def sanitized(name: str, source: Source, cases: Sequence[Case]) -> Said:
    """Call a function on each case under one sanitizer, up to the first that it speaks of."""
    small = [number for number, case in enumerate(cases) if case.elements <= MOST_ELEMENTS]
    with tempfile.TemporaryDirectory(prefix="course-sanitized-") as folder:
        packed, script = Path(folder) / "packed", Path(folder) / "launches.py"
        packed.write_bytes(pickle.dumps((source, [cases[number] for number in small])))
        script.write_text(LAUNCHES.format(path=sys.path, packed=str(packed)))
        way = BY_TOOL if name == "gsan" else BY_VARIABLE
        ended = run_source(way.format(sanitizer=name, script=str(script)), "launch", MOST_S)
    begun = len(BEGUN.findall(ended.stdout))
    if found := ASSERTION.search(f"{ended.stderr}\n{ended.stdout}"):
        for definition in source.definitions:
            keep_lines(definition)
        file, line, message = found.groups()
        text = f"The sanitizer {name} stopped it: {message}."
        problem = Problem("wrong", text, what=name, line=OwnLine(file, int(line)))
        return Said(f"{name}: {message}.", problem, small[max(0, begun - 1)])
    if ended.how != "finished":
        return Said(f"{name} has no answer. {ended.sentence('Its process')}.")
    return Said(f"{name} found nothing in {begun} case{'s' * (begun != 1)}.")


def launch(packed: str) -> None:
    """In the fresh process: call the function on each case, and print which one begins."""
    source, cases = pickle.loads(Path(packed).read_bytes())
    function = source.load()
    for number, case in enumerate(cases):
        print("\ncase", number, flush=True)
        function(*case.arguments(DEVICE))
        torch.cuda.synchronize()
