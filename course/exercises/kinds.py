"""The kinds of exercise. An exercise is data: what a right answer does, and what wrong ones share.

Its statement, stub and hints are in the lesson (`course.lessons.statements` reads them there).
"""

import math
import numbers
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import torch

from course.type_names import kind_of
from course.verifying.inputs import Case

from .result import Judged

Answer = Any
"""What a learner gives: a kernel, a launcher, a number, a text, or anything else."""

Function = Callable[..., torch.Tensor]
"""A function of a case's tensors and scalars."""


@dataclass(frozen=True)
class Code:
    """An answer that is run: on `cases`, against `reference` in float64, and compiled."""

    id: str
    parameters: tuple[str, ...]
    """The names of the answer's parameters, as its stub has them."""
    reference: Function
    """The right result, in PyTorch."""
    cases: tuple[Case, ...]
    absolute: float = 0.0
    """Error allowed on top of the dtype's tolerance, for results that cancel."""
    contiguous: bool = False
    """Whether the result must be."""
    block: int | None = None
    """Elements that one program may take: far more programs are wrong. None: any number may run."""
    longer: Callable[[int], Case] | None = None
    """Makes a case that a grid of fixed size leaves a part of, from the elements it can write."""
    most_launches: int | None = None
    most_bytes: Callable[..., int] | None = None
    """The most that kernels may load and store together, from a case's tensors and scalars."""
    least_programs: Callable[..., int] | None = None
    """The programs that must start at least, from a case's tensors and scalars."""
    may_copy: bool = True
    """Whether PyTorch may copy the inputs first, as `.contiguous()` does."""
    compiled: Callable[[dict[str, str]], Judged | None] | None = None
    """What is wrong with a compiled kernel, from its stages' texts; None if nothing is."""
    in_float32: bool = False
    """Whether arithmetic on 16-bit floats is wrong, as it rounds on the way."""
    slips: dict[str, Function] = field(default_factory=dict)
    """What comes out of slips that people make, from a case's tensors in float64 and its scalars:
    by a sentence's end, after "This is what comes out if"."""
    one_by_one: bool = False
    """Whether a program may go through elements in a loop, without a block."""
    own_elements: bool = False
    """Whether no two programs may write the same element, even if they write the same value."""
    in_order: bool = False
    """Whether a program may not go back and forth over what it writes."""
    timeout_s: float = 10
    """CPU time that it may take."""

    form: ClassVar[str]

    def function(self, answer: Answer) -> Function:
        """What is tried on the cases."""
        raise NotImplementedError

    def rounded_once(self, *args: Any) -> torch.Tensor:
        """The reference, computed in float32 where inputs have 16 bits, and rounded once.

        PyTorch's own functions, one after another, round after each, and `verify` lets be what
        does. Exercises are about one kernel, which computes in float32.
        """
        out: torch.Tensor = self.reference(*args)
        if not any(map(_has_16_bits, args)):
            return out
        wide = [each.float() if _has_16_bits(each) else each for each in args]
        return self.reference(*wide).to(out.dtype)


@dataclass(frozen=True)
class Kernel(Code):
    """An answer under @triton.jit: the exercise allocates the output and makes the grid."""

    launch: Function = field(kw_only=True)
    """Launches the kernel, its first argument, on a case; returns the output."""

    form = "a kernel, a function under @triton.jit"

    def function(self, answer: Answer) -> Function:
        return lambda *inputs: self.launch(answer, *inputs)


@dataclass(frozen=True)
class GluonKernel(Code):
    """An answer under @gluon.jit, which `simulate` follows and which is compiled.

    It never runs on a GPU, where a wrong barrier would wait forever.
    """

    launch: Function = field(kw_only=True)
    """Launches the kernel on a case; returns the output. Its first argument launches, as
    `run(kernel, grid, *args, num_warps=4)`; its second is the kernel."""
    one_by_one: bool = True

    form = "a Gluon kernel, a function under @gluon.jit"

    def function(self, answer: Answer) -> Function:
        return self.run_by(_launched, answer)

    def run_by(self, run: Callable[..., object], answer: Answer) -> Function:
        """What is tried on the cases, where `run` launches."""
        return lambda *inputs: self.launch(run, answer, *inputs)


def _launched(kernel: Answer, grid: tuple[int], *args: object, **options: object) -> None:
    kernel[grid](*args, **options)


@dataclass(frozen=True)
class Launcher(Code):
    """An answer that is a plain function: it allocates the output, makes the grid, and launches
    kernels of its own."""

    block: int | None = 1024
    trials: int = 0
    """The configurations that `@triton.autotune` must try in the first case."""

    form = "a launcher, a plain function that launches a kernel and returns a tensor"

    def function(self, answer: Answer) -> Function:
        launcher: Function = answer
        return launcher


@dataclass(frozen=True)
class Registration:
    """An answer that is a function of `parameters`: it registers `forward` as the operator `name`
    with a gradient that calls `backward`, and returns the operator."""

    id: str
    forward: Callable[..., tuple[torch.Tensor, torch.Tensor]]
    """x [M, N], weight [N], eps -> out [M, N], rstd [M]."""
    backward: Callable[..., tuple[torch.Tensor, torch.Tensor]]
    """d_out, x, weight, rstd -> d_x, d_weight."""
    reference: Callable[..., torch.Tensor]
    """out from x, weight, eps, in PyTorch."""
    timeout_s: float = 10
    """CPU time that it may take."""

    form: ClassVar[str] = "a function that registers an operator and returns it"
    parameters: ClassVar[tuple[str, ...]] = ("name", "forward", "backward")


class Question(Protocol):
    """An exercise whose answer is no code: it is judged in this process."""

    @property
    def id(self) -> str: ...

    @property
    def form(self) -> str:
        """What an answer is, as "a number"."""

    def judge(self, answer: Answer) -> Judged: ...


@dataclass(frozen=True)
class Number:
    """An answer that is a number in a unit."""

    id: str
    right: float
    unit: str
    because: str
    """Said to a right answer: how one gets it."""
    slips: dict[float, str] = field(default_factory=dict)
    """Wrong numbers that people get, and what led there."""
    relative: float = 0.02

    form: ClassVar[str] = "a number"

    def judge(self, answer: Answer) -> Judged:
        answer = _out_of_a_tuple(answer)
        if isinstance(answer, str):
            from .typed_number import number_in  # most answers are numbers

            typed, answer = answer, number_in(self.unit, answer)
            if answer is None:
                return Judged(
                    "no answer", f"It must be a number, in {self.unit}, as 12.5; this is {typed!r}."
                )
        if isinstance(answer, bool) or not isinstance(answer, numbers.Real):
            this = f"this is {kind_of(answer)}"
            return Judged("no answer", f"It must be a number, in {self.unit}; {this}.")
        try:
            number = float(answer)
        except OverflowError:
            number = math.inf
        if math.isclose(number, self.right, rel_tol=self.relative):
            return Judged("right", self.because)
        return Judged("wrong", *self._objection(number))

    def _objection(self, number: float) -> tuple[str, str]:
        """What is wrong with a number, and its kind: a known slip, its unit, or its size."""
        for place, (value, slip) in enumerate(self.slips.items(), start=1):
            if math.isclose(number, value, rel_tol=self.relative):
                return slip, f"slip {place}"
        if number <= 0 or not math.isfinite(number):
            return f"It must be above zero and finite, in {self.unit}.", "not positive"
        power = round(math.log10(number) - math.log10(self.right))
        if power and math.isclose(number, self.right * 10.0**power, rel_tol=self.relative):
            digits = "The digits are right and the power of ten is not"
            return f"{digits}: it must be in {self.unit}.", "power of ten"
        size = "large" if number > self.right else "small"
        return f"It is too {size}. The unit is {self.unit}.", f"too {size}"


LETTER = re.compile(r"[\s(]*([a-z])\s*(?:$|[).:,;=-])")
"""A letter alone, or before what it stands for, as "c: x[1:, :32]"."""


@dataclass(frozen=True)
class Choice:
    """An answer that is one letter of those in the statement."""

    id: str
    right: str
    why: dict[str, str]
    """For every letter, what speaks for or against it."""

    form: ClassVar[str] = "a letter"

    def judge(self, answer: Answer) -> Judged:
        answer = _out_of_a_tuple(answer)
        match = LETTER.match(answer.lower()) if isinstance(answer, str) else None
        letter = match[1] if match else ""
        if letter not in self.why:
            return Judged("no answer", f"It must be one of {', '.join(map(repr, self.why))}.")
        if letter == self.right:
            return Judged("right", self.why[letter])
        return Judged("wrong", self.why[letter], letter)


@dataclass(frozen=True)
class Text:
    """An answer that is a word or a line."""

    id: str
    accepts: tuple[str, ...]
    """The right texts. What does not count: spaces, commas, semicolons, "and", quotes at both ends,
    a full stop and capitals."""
    because: str
    slips: dict[str, str] = field(default_factory=dict)
    """Wrong texts that people give, and what led there."""

    form: ClassVar[str] = "a text"

    def judge(self, answer: Answer) -> Judged:
        if isinstance(answer, (tuple, list)):
            answer = ", ".join(map(str, answer))
        if not isinstance(answer, str):
            this = f"this is {kind_of(answer)}"
            return Judged("no answer", f"It must be a text, in quotes; {this}.")
        text = _plain(answer)
        if text in map(_plain, self.accepts):
            return Judged("right", self.because)
        for place, (wrong, slip) in enumerate(self.slips.items(), start=1):
            if text == _plain(wrong):
                return Judged("wrong", slip, f"slip {place}")
        return Judged("wrong", f"It is not {answer.strip()!r}.", "other")


def _out_of_a_tuple(answer: Answer) -> Answer:
    """What stands alone in a tuple or a list, which a comma too many makes; else the answer."""
    return answer[0] if isinstance(answer, (tuple, list)) and len(answer) == 1 else answer


def _plain(text: str) -> str:
    words = re.sub(r"[,;]|\band\b", " ", text.strip().rstrip("."))
    return "".join(words.split()).strip("'\"`").lower()


def _has_16_bits(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)
