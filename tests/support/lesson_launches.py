"""What the cells of a lesson launch, compiled for a GPU: in a child, where nothing is run."""

import contextlib
import linecache
from dataclasses import dataclass, field
from typing import Any

import triton

import course
from course.exercises.kinds import CodeExercise, DiagnosisExercise
from course.exercises.registry import find
from course.gpus.limits import target_of
from course.isolate import runs_in
from course.lessons.order import lesson_sources
from course.lessons.without_solutions import solved
from course.triton_internals.compiler import launches_compiled

BESIDE = ("target", "stages", "program", "element", "first_wrong_only")
"""What tools are told beside a launch."""


@dataclass(frozen=True)
class Compiled:
    """A lesson's launches, compiled for one target."""

    defined: list[str] = field(default_factory=list)
    """The kernels that its cells define."""
    shared: dict[str, int] = field(default_factory=dict)
    """kernel -> the most bytes of shared memory that a program of its launches takes"""
    problems: list[str] = field(default_factory=list)
    """What the compiler refused, in cells that are not there to fail."""


class Whatever:
    """Stands for what a tool returns, and for a picture."""

    def __getattr__(self, name: str) -> "Whatever":
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> "Whatever":
        return self

    __getitem__ = __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __call__

    def __iter__(self) -> Any:
        return iter((self,))

    def __contains__(self, each: Any) -> bool:
        return True

    def __float__(self) -> float:
        return 1.0

    def __format__(self, spec: str) -> str:
        return ""


class Launching:
    """The course's tools, of which each only launches what it is given."""

    def verify(self, function: Any, reference: Any, cases: Any = (), **options: Any) -> Whatever:
        few = [case for case in cases if case.elements <= 2**16]
        for case in sorted(few, key=lambda case: case.elements)[-1:]:
            function(*case.arguments("cpu"))
        return Whatever()

    def check(self, name: str, answer: Any) -> Whatever:
        exercise = find(name)
        if isinstance(exercise, DiagnosisExercise):
            exercise, answer = exercise.mended, answer[1]
        if isinstance(exercise, CodeExercise):
            exercise.function(answer)(*exercise.cases[0].arguments("cpu"))
        return Whatever()

    def lower(self, kernel: Any, *args: Any, **kwargs: Any) -> Whatever:
        if not any(isinstance(each, str) for each in args):
            named = {name: each for name, each in kwargs.items() if name not in BESIDE}
            kernel[(1,)](*args, **named)
        return Whatever()

    def cost(self, kernel: Any, grid: Any, *args: Any, **kwargs: Any) -> Whatever:
        return self.lower(kernel, *args, **kwargs)

    explore, diagnose = lower, cost


@runs_in("compile", timeout_s=120)
def compiled(lesson: str, target: str) -> Compiled:
    """The launches of a solved lesson, compiled for a target.

    What a cell does with a tool's result is no matter here, so its errors are left out.
    """
    (source,) = (each for each in lesson_sources() if each.name.startswith(lesson))
    cells = [cell for cell in solved(source).cells if cell.cell_type == "code"]
    names: dict[str, Any] = {"__name__": "a_lesson"}
    tools = Launching()
    found = Compiled()
    with launches_compiled(target_of(target).triton) as launches:
        for number, cell in enumerate(cells):
            file = f"<cell {number}>"
            linecache.cache[file] = (len(cell.source), None, cell.source.splitlines(True), file)
            before = len(launches.problems)
            with contextlib.suppress(Exception):
                exec(compile(cell.source, file, "exec"), names)
            if "except CourseError" not in cell.source:
                found.problems.extend([f"{file}: {each}" for each in launches.problems[before:]])
            for name, held in names.items():
                if getattr(held, "__module__", "").startswith("course.") or held is course.draw:
                    names[name] = getattr(tools, name, Whatever())
    kernels = (name for name, held in names.items() if isinstance(held, triton.JITFunction))
    found.defined.extend(name for name in kernels if name.endswith("_kernel"))
    for kernel in launches.kernels:
        name = kernel.metadata.name
        found.shared[name] = max(kernel.metadata.shared, found.shared.get(name, 0))
    return found
