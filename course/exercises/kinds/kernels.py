"""Exercises whose answer is code: a kernel, a kernel in Gluon, a launcher, a registration."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from course.exercises.result import Checked, Judged
from course.type_names import Kernel
from course.verifying.inputs import Case

TensorFunction = Callable[..., Tensor]
"""A function of a case's tensors and scalars."""


@dataclass(frozen=True)
class CodeExercise:
    """An answer that is run: on `cases`, against `reference` in float64, and compiled."""

    name: str
    parameters: tuple[str, ...]
    """The names of the answer's parameters, as its stub has them."""
    reference: TensorFunction
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
    loads_reach: bool = False
    """Whether `longer` is given the elements that such a grid can load: those that a sum writes
    say nothing of how many it adds up."""
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
    slips: dict[str, TensorFunction] = field(default_factory=dict)
    """end of a sentence, after "This is what comes out if" -> what comes out of that slip, from a
    case's tensors in float64 and its scalars"""
    one_by_one: bool = False
    """Whether a program may go through elements in a loop, without a block."""
    own_elements: bool = False
    """Whether no two programs may write the same element, even if they write the same value."""
    in_order: bool = False
    """Whether a program may not go back and forth over what it writes."""
    timeout_s: float = 10
    """CPU time that it may take."""

    form: ClassVar[str]
    answer_is: ClassVar[str]
    """What an answer of this form is called where another was given."""

    def function(self, answer: Any) -> TensorFunction:
        """What is tried on the cases."""
        raise NotImplementedError

    def check(self, answer: object) -> Checked:
        """What `check` returns for an answer."""
        from course.exercises.judges.code import check_code  # it loads the children's side

        return check_code(self, answer)

    def rounded_once(self, *args: Any) -> Tensor:
        """The reference, computed in float32 where inputs have 16 bits, and rounded once.

        PyTorch's own functions, one after another, round after each, and `verify` lets be what
        does. Exercises are about one kernel, which computes in float32.
        """
        wide = [each.float() if _has_16_bits(each) else each for each in args]
        out: Tensor = self.reference(*args)
        return self.reference(*wide).to(out.dtype) if any(map(_has_16_bits, args)) else out


@dataclass(frozen=True)
class KernelExercise(CodeExercise):
    """An answer under @triton.jit: the exercise allocates the output and makes the grid."""

    launch: TensorFunction = field(kw_only=True)
    """Launches the kernel, its first argument, on a case; returns the output."""

    form = "a kernel, a function under @triton.jit"
    answer_is = "a kernel"

    def function(self, answer: Any) -> TensorFunction:
        return partial(self.launch, answer)


def _launched(kernel: Kernel, grid: tuple[int], *args: object, **options: object) -> None:
    kernel[grid](*args, **options)


@dataclass(frozen=True)
class GluonExercise(CodeExercise):
    """An answer under @gluon.jit, which `simulate` follows and which is compiled.

    It never runs on a GPU, where a wrong barrier would wait forever.
    """

    launch: TensorFunction = field(kw_only=True)
    """Launches the kernel on a case; returns the output. Its first argument launches, as
    `run(kernel, grid, *args, num_warps=4)`; its second is the kernel."""
    proof: TensorFunction | None = None
    """As `launch`, with another kernel around parts of the answer. It is followed, and not
    compiled."""
    one_by_one: bool = True

    form = "a Gluon kernel, a function under @gluon.jit"
    answer_is = "a Gluon kernel"

    def function(self, answer: Any, run: Callable[..., object] = _launched) -> TensorFunction:
        """What is tried on the cases, where `run` launches."""
        return partial(self.launch, run, answer)


@dataclass(frozen=True)
class LauncherExercise(CodeExercise):
    """An answer that is a plain function: it allocates the output, makes the grid, and launches
    kernels of its own."""

    block: int | None = 1024
    trials: int = 0
    """The configurations that `@triton.autotune` must try in the first case."""
    in_place: bool = False
    """Whether kernels may store to nothing but the tensor that is returned."""

    form = "a launcher, a plain function that launches a kernel and returns a tensor"
    answer_is = "a plain function"

    def function(self, answer: Any) -> TensorFunction:
        launcher: TensorFunction = answer
        return launcher


@dataclass(frozen=True)
class RegistrationExercise:
    """An answer that is a function of `parameters`: it registers `forward` as the operator `name`
    with a gradient that calls `backward`, and returns the operator."""

    name: str
    forward: Callable[..., tuple[Tensor, Tensor]]
    """x [M, N], weight [N], eps -> out [M, N], rstd [M]."""
    backward: Callable[..., tuple[Tensor, Tensor]]
    """d_out, x, weight, rstd -> d_x, d_weight."""
    reference: Callable[..., Tensor]
    """out from x, weight, eps, in PyTorch."""
    timeout_s: float = 10
    """CPU time that it may take."""

    form: ClassVar[str] = "a function that registers an operator and returns it"
    answer_is: ClassVar[str] = "a plain function"
    """What an answer of this form is called where another was given."""
    parameters: ClassVar[tuple[str, ...]] = ("name", "forward", "backward")

    def check(self, answer: object) -> Checked:
        """What `check` returns for an answer."""
        from course.exercises.judges.code import check_code  # it loads the children's side

        return check_code(self, answer)


def _has_16_bits(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype in (torch.float16, torch.bfloat16)
