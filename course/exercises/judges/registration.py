"""Judge an answer that registers an operator: in a child process, and never in the session."""

import functools
import importlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch._library.custom_ops import CustomOpDef
from torch.library import opcheck

from course import DEVICE
from course.exercises.kinds import RegistrationExercise
from course.exercises.registry import find
from course.exercises.result import Judged, wrong
from course.isolate import runs_in
from course.isolate.function_source import Source
from course.triton_internals.errors import first_words
from course.type_names import kind_of
from course.verifying.one_case import first_line

from .worker import Tried

NAME = "course_check::operator"
EPS = 1e-6
TESTS = ("test_schema", "test_autograd_registration")
"""Those of opcheck's that need no compiled kernel, so that a verdict is the same in both modes."""

Gradients = tuple[Tensor, Tensor]


def _prepare() -> None:
    """Load what PyTorch would otherwise load in each trial anew."""
    for name in ("torch._dynamo", "torch.testing._internal.optests"):
        importlib.import_module(name)


@runs_in("interpret", prepare=_prepare)
def try_registration(exercise_name: str, source: Source) -> Tried:
    """Call the answer, and judge the operator that it returns."""
    exercise = find(exercise_name)
    assert isinstance(exercise, RegistrationExercise)
    return Tried(_judged(exercise, source.load()))


class NotContiguousError(Exception):
    """A launcher was handed a tensor whose rows do not lie side by side."""

    def __init__(self, name: str, strides: tuple[int, ...]) -> None:
        super().__init__(
            f"`backward` was handed {name} with the strides {strides}, and its kernels read rows "
            f"that lie side by side: hand it {name}.contiguous()."
        )
        self.name = name


def _of_rows(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """A launcher that counts on contiguous tensors as the lesson's do, and says so."""

    @functools.wraps(backward)
    def launcher(d_out: Tensor, x: Tensor, weight: Tensor, rstd: Tensor) -> Gradients:
        for name, tensor in {"d_out": d_out, "x": x, "weight": weight, "rstd": rstd}.items():
            if not tensor.is_contiguous():
                raise NotContiguousError(name, tensor.stride())
        return backward(d_out, x, weight, rstd)

    return launcher


def _judged(exercise: RegistrationExercise, answer: Callable[..., object]) -> Judged:
    """The verdict of an answer, which is called here."""
    try:
        operator = answer(NAME, exercise.forward, _of_rows(exercise.backward))
        for kind, text in _problems(exercise, operator):
            return wrong(kind, text)
    except NotContiguousError as error:
        return wrong(f"{error.name} not contiguous", str(error))
    except Exception as error:
        line, kind = _sentence(error), f"raised {type(error).__name__}"
        if isinstance(error, RuntimeError):  # PyTorch's; other words may be those of kernels/
            kind += f" {first_words(line)}"
        return wrong(kind, f"It raised {type(error).__name__}: {line}")
    values = "The values and both gradients are PyTorch's, also of a sum and of a transposed x"
    return Judged("right", f"{values}; opcheck finds nothing, and gradcheck agrees.")


def _problems(exercise: RegistrationExercise, operator: object) -> Iterator[tuple[str, str]]:
    """The kind of each problem with an operator, and a sentence; the most telling first."""
    if not isinstance(operator, CustomOpDef):
        instead = "return what torch.library.triton_op gives, the operator itself"
        yield "no operator", f"It returned {kind_of(operator)}: {instead}."
        return
    if operator._qualname != NAME:
        yield "name", f"The operator is called {operator._qualname}, and must be called {NAME}."
    x, weight, d_out = _inputs(torch.float32)
    out, rstd = operator(x, weight, EPS)
    expected = exercise.reference(x, weight, EPS)
    if not torch.allclose(out, expected, atol=1e-5):
        yield "result", "Its result is not that of `forward`."
    turned = x.detach().T.contiguous().T.requires_grad_()
    # As a sum of the result gives it: one number, seen as a matrix.
    expanded = torch.ones((), device=DEVICE).expand(d_out.shape)
    apart = weight.detach().repeat_interleave(2)[::2].requires_grad_()
    for of_x, of_weight, gradient in (
        (x, weight, d_out), (x, weight, expanded), (turned, weight, d_out), (x, apart, d_out),
    ):  # fmt: skip
        expected = exercise.reference(of_x, of_weight, EPS)
        out = operator(of_x, of_weight, EPS)[0]
        yield from _gradient_problems(out, expected, of_x, of_weight, gradient)
    if rstd.requires_grad:
        nobody = "PyTorch takes rstd for a result with a gradient, which nobody computes"
        yield "rstd differentiable", f"{nobody}: name it in ctx.mark_non_differentiable."
    for test in TESTS:
        try:
            opcheck(operator, (x, weight, EPS), test_utils=test)
        except Exception as error:
            yield test, f"opcheck's {test} fails: {_sentence(error)}"
    exact = _inputs(torch.float64)[:2]
    if not torch.autograd.gradcheck(
        lambda x, weight: operator(x, weight, EPS)[0], exact, raise_exception=False
    ):
        yield "gradcheck", "Its gradient is not what gradcheck finds by small steps."


def _gradient_problems(
    out: Tensor, expected: Tensor, x: Tensor, weight: Tensor, d_out: Tensor
) -> Iterator[tuple[str, str]]:
    try:
        for _ in range(2):  # whoever keeps the graph may ask again
            ours = torch.autograd.grad(
                out, (x, weight), d_out, allow_unused=True, retain_graph=True
            )
    except RuntimeError as error:
        if "no autograd formula" not in str(error):
            raise
        text = "Its result has no gradient: register one with register_autograd."
        yield "no gradient", text
        return
    theirs = torch.autograd.grad(expected, (x, weight), d_out)
    for name, one, other in zip(("x", "weight"), ours, theirs, strict=True):
        if one is None:
            none = f"No gradient comes back for {name}"
            yield f"no gradient for {name}", f"{none}: `backward` returns one for each input."
        elif not torch.allclose(one, other, atol=1e-4):
            look = "look at what is saved, and at the order in which gradients are returned"
            yield f"gradient of {name}", f"The gradient of {name} is not PyTorch's: {look}."


def _inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """x and weight, which want a gradient, and d_out."""
    generator = torch.Generator().manual_seed(3)
    x, weight, d_out = (
        torch.randn(shape, dtype=dtype, generator=generator).to(DEVICE)
        for shape in ((3, 7), (7,), (3, 7))
    )
    return x.requires_grad_(), weight.requires_grad_(), d_out


def _sentence(error: Exception) -> str:
    return first_line(error).removesuffix(".") + "."
