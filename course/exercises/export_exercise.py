"""An exercise whose answer is what an export is told. It is exported, built and called, on the stand-in alone."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from course import aot
from course.aot.abi import scalar_of
from course.aot.captured_launch import CapturedLaunch, PlainValue, TensorPlace, captured_launch
from course.aot.manifest import Function
from course.aot.signature import Argument
from course.errors import CourseError
from course.lowering.api import LowerError

from .result import Judged

ROOT = Path(__file__).parents[2]
TARGET = "sm_90"


def tensor(dtype: str, past: int = 0) -> TensorPlace:
    """A tensor for a call; past: how many bytes after a multiple of 16 it begins."""
    return TensorPlace(dtype, past)


@dataclass(frozen=True)
class Launch:
    """A call of the exported function, and what the driver must be handed."""

    values: Mapping[str, PlainValue]
    """By argument; a tensor as `tensor` makes it."""
    grid: tuple[int, int, int]
    promises: frozenset[str] = frozenset()
    """The arguments that the variant which is taken must be promised something of."""
    shown: tuple[str, ...] = ()
    """The numbers that a sentence names; all where none is named."""

    def __str__(self) -> str:
        tensors = {
            name: each for name, each in self.values.items() if isinstance(each, TensorPlace)
        }
        shown = {name: each for name, each in self.values.items() if name not in tensors}
        numbers = [f"{name} = {shown[name]:,}" for name in self.shown or shown]
        shifted = [
            f"{name} {each.past} bytes past a multiple of 16"
            for name, each in tensors.items()
            if each.past
        ]
        return ", ".join(numbers + shifted)


@dataclass(frozen=True)
class Exported:
    """An answer that is a signature, a grid, or a list of signatures."""

    id: str
    kernel: str
    """As "kernels/vector_add.py:add_kernel"."""
    asks: Literal["signature", "grid", "signatures"]
    types: dict[str, str]
    """By argument that is given at run time its type."""
    launches: tuple[Launch, ...]
    because: str
    """Said to a right answer."""
    signature: str = ""
    """Where a grid is asked."""
    grid: str = ""
    """Where it is not."""
    constants: dict[str, int] = field(default_factory=dict)
    """What must be constant, and of which value."""
    may_be_constant: dict[str, Any] = field(default_factory=dict)
    """Run-time arguments that the signature may fix as well, to this value."""

    @property
    def form(self) -> str:
        return {
            "signature": "a text",
            "grid": "a text",
            "signatures": "a list of texts, a signature each",
        }[self.asks]

    def judge(self, answer: Any) -> Judged:
        texts = [answer] if isinstance(answer, str) else answer
        is_list = isinstance(texts, (list, tuple)) and all(isinstance(t, str) for t in texts)
        if not is_list or not texts or (self.asks != "signatures" and len(texts) > 1):
            shown = repr(answer)
            shown = shown if len(shown) <= 60 else shown[:59] + "…"
            return Judged("no answer", f"It must be {self.form}; this is {shown}.")
        signatures, grid = (
            ([self.signature], texts[0]) if self.asks == "grid" else (texts, self.grid)
        )
        with tempfile.TemporaryDirectory(prefix="course-exercise-") as folder:
            try:
                problem = self._problem(signatures, grid, Path(folder))
            except LowerError as error:
                refused = "does not compile" in str(error)
                return Judged("does not compile" if refused else "wrong", str(error))
            except CourseError as error:
                problem = str(error)
        return Judged("wrong", problem) if problem else Judged("right", self.because)

    def _problem(self, signatures: Sequence[str], grid: str, folder: Path) -> str:
        """What is wrong with the function that the answer exports; empty if nothing is."""
        exported = aot.export(
            f"{ROOT / self.kernel}", signatures, grid, "answer", folder / "answer", target=TARGET
        )
        for function in exported.functions:
            for problem in self._type_problems(function):
                return problem
        linked = aot.link(exported, folder / "linked")
        names = [argument.name for argument in exported.functions[0].runtime]
        library = str(aot.build(linked))
        for launch in self.launches:
            try:
                captured = captured_launch(library, [launch.values[name] for name in names])
            except CourseError as error:
                return self._refusal(launch, exported.functions, str(error))
            function = next(one for one in exported.functions if one.name == captured.function)
            for problem in self._launch_problems(launch, captured, function):
                return problem
        return ""

    def _type_problems(self, function: Function) -> Iterator[str]:
        for each in function.arguments:
            wanted = self.types.get(each.name)
            if wanted is None:
                if each.constant and each.value != self.constants.get(each.name, each.value):
                    yield f"{each.name} is {each.value}, and must be {self.constants[each.name]}."
                continue  # that it is constant the compiler asks for itself
            if each.constant and each.name not in self.may_be_constant:
                yield f"{each.name} is the constant {each.value}: the function would serve that one value."
            elif each.constant and each.value != self.may_be_constant[each.name]:
                yield f"{each.name} is the constant {each.value}, and it is {self.may_be_constant[each.name]} in every call."
            elif each.type is not None and each.type.replace("*k", "*") != wanted:
                yield f"{each.name} is {each.type}, and must be {wanted}."

    def _refusal(self, launch: Launch, functions: Sequence[Function], said: str) -> str:
        if "launches nothing" in said:
            return f"With {launch} nothing is launched: the grid has a 0 in it."
        broken = [
            next((each for each in one.runtime if not holds(each, launch.values[each.name])), None)
            for one in functions
        ]
        promises = [
            f"{each.name} is promised to be {'1' if each.hint == 1 else 'a multiple of 16'}"
            for each in broken
            if each
        ]
        if "INVALID_VALUE" not in said or len(promises) < len(functions):
            return f"With {launch} there is no launch: {said}"
        if len(promises) == 1:
            return f"With {launch} the function refuses to launch: {promises[0]}."
        listed = "; ".join(
            f"in signature {number} {each}" for number, each in enumerate(promises, start=1)
        )
        return f"With {launch} no variant takes the call: {listed}."

    def _launch_problems(
        self, launch: Launch, handed: CapturedLaunch, function: Function
    ) -> Iterator[str]:
        if handed.grid != launch.grid:
            ours, theirs = (" x ".join(map(str, each)) for each in (launch.grid, handed.grid))
            yield f"With {launch} the driver is handed a grid of {theirs}, and it must be {ours}."
        for each in handed.arguments:
            scalar, value = scalar_of(each.type), launch.values[each.name]
            if scalar is None or isinstance(value, TensorPlace):
                continue
            if each.content != scalar.packed(value):
                yield f"With {launch} the kernel reads {each.name} as {each.value}."
        promised = {each.name for each in function.arguments if each.hint or each.constant}
        missing = ", ".join(name for name in launch.values if name in launch.promises - promised)
        if missing:
            who = "the variant that is taken" if self.asks == "signatures" else "the kernel"
            yield f"With {launch} it launches, but {who} is promised nothing of {missing}: a silent slow path."


def holds(argument: Argument, value: PlainValue) -> bool:
    """Whether the value keeps what the signature promises of it."""
    number = value.past if isinstance(value, TensorPlace) else value
    return argument.hint is None or (number == 1 if argument.hint == 1 else number % 16 == 0)
