"""Check an answer that registers an operator: a child process calls it, and never this one."""

import importlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.library import opcheck

from course import DEVICE
from course.errors import CourseError
from course.isolate import runs_in
from course.isolate.function_source import Source, source_of
from course.triton_internals.errors import first_words
from course.type_names import kind_of

from .check_code import form_problem, tried_once
from .kinds import Answer, Registration
from .registry import find
from .result import Checked, Judged, wrong
from .worker import Trial

NAME = "course_check::operator"
EPS = 1e-6
TESTS = ("test_schema", "test_autograd_registration")
"""Those of opcheck's that need no compiled kernel, so that a verdict is the same in both modes."""


def check_registration(exercise: Registration, answer: Answer) -> Checked:
    """Judge a function that registers an operator."""
    if problem := form_problem(exercise, answer):
        return Checked(exercise.id, "no answer", problem)
    try:
        source = source_of(answer, kernels_as_text=True)
    except CourseError as error:
        return Checked(exercise.id, "no answer", str(error))
    trial = tried_once(try_registration, exercise, source)
    return Checked(exercise.id, *trial.judged, trial.notes)


def _prepare() -> None:
    """Load what PyTorch would otherwise load in each trial anew."""
    for name in ("torch._dynamo", "torch.testing._internal.optests"):
        importlib.import_module(name)


@runs_in("interpret", prepare=_prepare)
def try_registration(exercise_id: str, source: Source) -> Trial:
    """Call the answer, and judge the operator that it returns."""
    exercise = find(exercise_id)
    assert isinstance(exercise, Registration)
    return Trial(_judged(exercise, source.load()))


def _judged(exercise: Registration, answer: Answer) -> Judged:
    """The verdict of an answer, which is called here."""
    try:
        operator = answer(NAME, exercise.forward, exercise.backward)
        if operator is None:
            return Judged("to do")
        for problem in _problems(exercise, operator):
            return problem
    except Exception as error:
        line, kind = _first_line(error), f"raised {type(error).__name__}"
        if isinstance(error, RuntimeError):  # PyTorch's; other words may be those of kernels/
            kind += f" {first_words(line)}"
        return wrong(kind, f"It raised {type(error).__name__}: {line}")
    return Judged(
        "right",
        "The values and both gradients are PyTorch's, opcheck finds nothing, and gradcheck agrees.",
    )


def _problems(exercise: Registration, operator: Any) -> Iterator[Judged]:
    """What is wrong with an operator, the most telling first."""
    if not isinstance(operator, torch.library.CustomOpDef):
        yield wrong(
            "no operator",
            f"It returned {kind_of(operator)}: return what torch.library.triton_op gives, the "
            "operator itself.",
        )
        return
    if operator._qualname != NAME:
        text = f"The operator is called {operator._qualname}, and must be called {NAME}."
        yield wrong("name", text)
    x, weight, d_out = _inputs(torch.float32)
    out, rstd = operator(x, weight, EPS)
    if not torch.allclose(out, exercise.reference(x, weight, EPS), atol=1e-5):
        yield wrong("result", "Its result is not that of `forward`.")
    yield from _gradient_problems(exercise, operator, x, weight, d_out)
    if rstd.requires_grad:
        yield wrong(
            "rstd differentiable",
            "PyTorch takes rstd for a result with a gradient, which nobody computes: name it "
            "in ctx.mark_non_differentiable.",
        )
    for test in TESTS:
        try:
            opcheck(operator, (x, weight, EPS), test_utils=test)
        except Exception as error:
            yield wrong(test, f"opcheck's {test} fails: {_first_line(error)}")
    exact = _inputs(torch.float64)[:2]
    if not torch.autograd.gradcheck(
        lambda x, weight: operator(x, weight, EPS)[0], exact, raise_exception=False
    ):
        yield wrong("gradcheck", "Its gradient is not what gradcheck finds by small steps.")


def _gradient_problems(
    exercise: Registration,
    operator: Any,
    x: torch.Tensor,
    weight: torch.Tensor,
    d_out: torch.Tensor,
) -> Iterator[Judged]:
    out, expected = operator(x, weight, EPS)[0], exercise.reference(x, weight, EPS)
    try:
        ours = torch.autograd.grad(out, (x, weight), d_out, allow_unused=True)
    except RuntimeError as error:
        if "no autograd formula" not in str(error):
            raise
        text = "Its result has no gradient: register one with register_autograd."
        yield wrong("no gradient", text)
        return
    theirs = torch.autograd.grad(expected, (x, weight), d_out)
    for name, one, other in zip(("x", "weight"), ours, theirs, strict=True):
        if one is None:
            text = f"No gradient comes back for {name}: `backward` returns one for each input."
            yield wrong(f"no gradient for {name}", text)
        elif not torch.allclose(one, other, atol=1e-4):
            yield wrong(
                f"gradient of {name}",
                f"The gradient of {name} is not PyTorch's: look at what is saved, and at the "
                "order in which gradients are returned.",
            )


def _inputs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x and weight, which want a gradient, and d_out."""
    generator = torch.Generator().manual_seed(3)
    x, weight, d_out = (
        torch.randn(shape, dtype=dtype, generator=generator).to(DEVICE)
        for shape in ((3, 7), (7,), (3, 7))
    )
    return x.requires_grad_(), weight.requires_grad_(), d_out


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "").removesuffix(".") + "."
