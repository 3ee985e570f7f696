"""Exercises whose answer is what an export is told: a signature, signatures, or a grid.

The answer is exported and built; the C function is called on the fake driver, and never on a GPU.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from course import aot
from course.aot.abi import scalar_of
from course.aot.handed import CapturedLaunch, PlainValue, TensorPlace, captured_launch
from course.aot.manifest import Function
from course.aot.signature import Argument
from course.errors import CourseError
from course.exercises.result import Judged, wrong
from course.places import content
from course.type_names import AnyValue

from .values import Question

TARGET = "sm_90"
INVALID_VALUE = "CUDA_ERROR_INVALID_VALUE"
"""The kind of error of a function whose promises a call does not keep."""
FORMS = {"signature": "a text", "grid": "a text", "signatures": "a list of texts, a signature each"}


def tensor(dtype: str, past: int = 0) -> TensorPlace:
    """A tensor for a call; past: how many bytes after a multiple of 16 it begins."""
    return TensorPlace(dtype, past)


@dataclass(frozen=True)
class ExportCall:
    """A call of the exported function, and what the driver must be handed."""

    values: Mapping[str, PlainValue]
    """argument -> its value; a tensor as `tensor` makes it"""
    grid: tuple[int, int, int]
    promises: frozenset[str] = frozenset()
    """The arguments that the variant which is taken must be promised something of."""
    shown: tuple[str, ...] = ()
    """The numbers that a sentence names besides those that the grid uses; all if none is named."""

    def described(self, grid: str) -> str:
        """As "n_elements = 1,000, x_ptr 4 bytes past a multiple of 16"."""
        shown, shifted = {}, []
        for name, value in self.values.items():
            if not isinstance(value, TensorPlace):
                shown[name] = f"{name} = {value:,}"
            elif value.past:
                shifted.append(f"{name} {value.past} bytes past a multiple of 16")
        used = {*self.shown, *re.findall(r"\w+", grid)} if self.shown else {*shown}
        return ", ".join([*(text for name, text in shown.items() if name in used), *shifted])


@dataclass(frozen=True)
class ExportExercise(Question):
    """An answer that is a signature, a grid, or a list of signatures."""

    name: str
    kernel: str
    """As "kernels/vector_add.py:add_kernel"."""
    asks: Literal["signature", "grid", "signatures"]
    types: dict[str, str]
    """The type of each argument that is given at run time."""
    calls: tuple[ExportCall, ...]
    because: str
    """Said to a right answer."""
    signature: str = ""
    """The signature that is exported where a grid is asked for."""
    grid: str = ""
    """The grid that is exported where signatures are asked for."""
    constants: dict[str, int] = field(default_factory=dict)
    """The value of each argument that must be constant."""
    may_be_constant: dict[str, int] = field(default_factory=dict)
    """Run-time arguments that the signature may fix as well, to this value."""

    @property
    def form(self) -> str:
        return FORMS[self.asks]

    def judge(self, answer: AnyValue) -> Judged:
        texts = [answer] if isinstance(answer, str) else answer
        is_list = isinstance(texts, (list, tuple)) and all(isinstance(t, str) for t in texts)
        if not is_list or not texts or (self.asks != "signatures" and len(texts) > 1):
            shown = repr(answer)
            shown = shown if len(shown) <= 60 else shown[:59] + "…"
            return Judged("no answer", f"It must be {self.form}; this is {shown}.")
        is_grid = self.asks == "grid"
        signatures, grid = ([self.signature], texts[0]) if is_grid else (texts, self.grid)
        with tempfile.TemporaryDirectory(prefix="course-exercise-") as folder:
            try:
                judged = self._problem(signatures, grid, Path(folder))
            except CourseError as error:
                refused = error.kind == "refused"  # by the compiler, see LowerError
                return Judged("does not compile" if refused else "wrong", str(error), error.kind)
        return judged or Judged("right", self.because)

    def _problem(self, signatures: Sequence[str], grid: str, folder: Path) -> Judged | None:
        """What is wrong with the functions that the answer exports; None if nothing is."""
        kernel = f"{content() / self.kernel}"
        exported = aot.export(kernel, signatures, grid, "answer", folder / "answer", target=TARGET)
        functions = {function.name: function for function in exported.functions}
        for function in functions.values():
            for problem in self._type_problems(function):
                return problem
        names = [argument.name for argument in exported.functions[0].runtime]
        library = str(aot.build(aot.link(exported, folder / "linked")))
        for call in self.calls:
            try:
                launch = captured_launch(library, [call.values[name] for name in names])
                problems = self.launch_problems(call, launch, functions[launch.function])
            except CourseError as error:
                problems = iter([_refusal(call, exported.functions, error)])
            for _, reason, kind in problems:
                return wrong(kind, f"With {call.described(grid)} {reason}")
        return None

    def _type_problems(self, function: Function) -> Iterator[Judged]:
        for argument in function.arguments:
            name, value, type = argument.name, argument.value, argument.type
            if name not in self.types:
                if argument.constant and value != self.constants.get(name, value):
                    must_be = f"and must be {self.constants[name]}"
                    yield wrong(f"{name} is {value}", f"{name} is {value}, {must_be}.")
                continue  # the compiler itself asks that it is constant
            kind, fixed = f"{name} is constant", f"{name} is the constant {value}"
            if argument.constant and name not in self.may_be_constant:
                yield wrong(kind, f"{fixed}: the function would serve that one value.")
            elif argument.constant and value != self.may_be_constant[name]:
                in_calls = f"and it is {self.may_be_constant[name]} in every call"
                yield wrong(kind, f"{fixed}, {in_calls}.")
            elif type is not None and type.replace("*k", "*") != self.types[name]:
                kind = f"{name} is {type}"
                yield wrong(kind, f"{kind}, and must be {self.types[name]}.")

    def launch_problems(
        self, call: ExportCall, launch: CapturedLaunch, function: Function
    ) -> Iterator[Judged]:
        """What is wrong with a launch, after "With …"."""
        if launch.grid != call.grid:
            ours, theirs = (" x ".join(map(str, grid)) for grid in (call.grid, launch.grid))
            handed = f"the driver is handed a grid of {theirs}"
            yield wrong(f"grid {theirs} for {ours}", f"{handed}, and it must be {ours}.")
        for argument in launch.arguments:
            scalar, value = scalar_of(argument.type), call.values[argument.name]
            if scalar is None or isinstance(value, TensorPlace):
                continue
            if argument.content != scalar.packed(value):
                read = f"the kernel reads {argument.name} as {argument.value}."
                yield wrong(f"{argument.name} read", read)
        promised = {each.name for each in function.arguments if each.hint or each.constant}
        missing = ", ".join(name for name in call.values if name in call.promises - promised)
        if missing:
            who = "the variant that is taken" if self.asks == "signatures" else "the kernel"
            nothing = f"{who} is promised nothing of {missing}"
            slow = f"it launches, but {nothing}: a silent slow path."
            yield wrong(f"no promise of {missing}", slow)


def _refusal(call: ExportCall, functions: Sequence[Function], error: CourseError) -> Judged:
    """Why there is no launch, after "With …": the promises that the call does not keep.

    error: the function's.
    """
    if error.kind == "no launch":
        return wrong(error.kind, "nothing is launched: the grid has a 0 in it.")
    promises = [_broken_promises(function, call) for function in functions]
    if error.kind != INVALID_VALUE or not all(promises):
        return wrong(error.kind, f"there is no launch: {error}")
    broken = [first for first, *_ in promises]
    kind = f"broken promises of {', '.join(argument.name for argument in broken)}"
    texts = [
        f"{argument.name} is promised to be {'1' if argument.hint == 1 else 'a multiple of 16'}"
        for argument in broken
    ]
    if len(broken) == 1:
        return wrong(kind, f"the function refuses to launch: {texts[0]}.")
    numbered = (f"in signature {number} {text}" for number, text in enumerate(texts, start=1))
    return wrong(kind, f"no variant takes the call: {'; '.join(numbered)}.")


def _broken_promises(function: Function, call: ExportCall) -> list[Argument]:
    """The arguments of a variant whose promises the call does not keep."""
    return [each for each in function.runtime if not holds(each, call.values[each.name])]


def holds(argument: Argument, value: PlainValue) -> bool:
    """Whether the value keeps what the signature promises of it."""
    number = value.past if isinstance(value, TensorPlace) else value
    return argument.hint is None or (number == 1 if argument.hint == 1 else number % 16 == 0)
