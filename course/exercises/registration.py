"""An exercise whose answer registers an operator with its gradient, and what must hold of it."""

import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.library import opcheck

from course import DEVICE
from course.type_names import kind_of

from .kinds import Answer
from .result import Judged

PARAMETERS = ("name", "forward", "backward")
TESTS = ("test_schema", "test_autograd_registration")
"""Those of opcheck's that need no compiled kernel, so that a verdict is the same in both modes."""
_numbers = itertools.count()


@dataclass(frozen=True)
class Registration:
    """An answer that is a function of PARAMETERS: it registers `forward` as the operator `name`
    with a gradient that calls `backward`, and returns the operator."""

    id: str
    forward: Callable[..., tuple[torch.Tensor, torch.Tensor]]
    """x [M, N], weight [N], eps -> out [M, N], rstd [M]."""
    backward: Callable[..., tuple[torch.Tensor, torch.Tensor]]
    """d_out, x, weight, rstd -> d_x, d_weight."""
    reference: Callable[..., torch.Tensor]
    """out from x, weight, eps, in PyTorch."""

    form: ClassVar[str] = "a function that registers an operator and returns it"

    def judge(self, answer: Answer) -> Judged:
        if not inspect.isfunction(answer):
            return Judged("no answer", f"It must be {self.form}; this is {kind_of(answer)}.")
        names = tuple(inspect.signature(answer).parameters)
        if names != PARAMETERS:
            takes = f"{answer.__name__} takes ({', '.join(names)})"
            given = f"and the exercise gives it ({', '.join(PARAMETERS)})"
            return Judged("no answer", f"{takes}, {given}.")
        name = f"course_check::operator_{next(_numbers)}"  # the last one's gradient would stay
        try:
            operator = answer(name, self.forward, self.backward)
            if operator is None:
                return Judged("to do")
            problem = next(self._problems(operator, name), "")
        except Exception as error:
            problem = f"It raised {type(error).__name__}: {_first_line(error)}"
        if problem:
            return Judged("wrong", problem)
        return Judged(
            "right",
            "The values and both gradients are PyTorch's, opcheck finds nothing, and gradcheck "
            "agrees.",
        )

    def _problems(self, operator: Any, name: str) -> Iterator[str]:
        """What is wrong with an operator, the most telling first."""
        if not isinstance(operator, torch.library.CustomOpDef):
            yield (
                f"It returned {kind_of(operator)}: return what torch.library.triton_op gives, the "
                "operator itself."
            )
            return
        if operator._qualname != name:
            yield f"The operator is called {operator._qualname}, and must be called {name}."
        x, weight, d_out = self._inputs(torch.float32)
        out, rstd = operator(x, weight, EPS)
        if not torch.allclose(out, self.reference(x, weight, EPS), atol=1e-5):
            yield "Its result is not that of `forward`."
        yield from self._gradient_problems(operator, x, weight, d_out)
        if rstd.requires_grad:
            yield (
                "PyTorch takes rstd for a result with a gradient, which nobody computes: name it "
                "in ctx.mark_non_differentiable."
            )
        for test in TESTS:
            try:
                opcheck(operator, (x, weight, EPS), test_utils=test)
            except Exception as error:
                yield f"opcheck's {test} fails: {_first_line(error)}"
        exact = self._inputs(torch.float64)[:2]
        if not torch.autograd.gradcheck(
            lambda x, weight: operator(x, weight, EPS)[0], exact, raise_exception=False
        ):
            yield "Its gradient is not what gradcheck finds by small steps."

    def _gradient_problems(
        self, operator: Any, x: torch.Tensor, weight: torch.Tensor, d_out: torch.Tensor
    ) -> Iterator[str]:
        out, expected = operator(x, weight, EPS)[0], self.reference(x, weight, EPS)
        try:
            ours = torch.autograd.grad(out, (x, weight), d_out, allow_unused=True)
        except RuntimeError as error:
            if "no autograd formula" not in str(error):
                raise
            yield "Its result has no gradient: register one with register_autograd."
            return
        theirs = torch.autograd.grad(expected, (x, weight), d_out)
        for name, one, other in zip(("x", "weight"), ours, theirs, strict=True):
            if one is None:
                yield f"No gradient comes back for {name}: `backward` returns one for each input."
            elif not torch.allclose(one, other, atol=1e-4):
                yield (
                    f"The gradient of {name} is not PyTorch's: look at what is saved, and at the "
                    "order in which gradients are returned."
                )

    def _inputs(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """x and weight, which want a gradient, and d_out."""
        generator = torch.Generator().manual_seed(3)
        x, weight, d_out = (
            torch.randn(shape, dtype=dtype, generator=generator).to(DEVICE)
            for shape in ((3, 7), (7,), (3, 7))
        )
        return x.requires_grad_(), weight.requires_grad_(), d_out


EPS = 1e-6


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "").removesuffix(".") + "."
