"""An exercise whose answer registers an operator of PyTorch's."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from course.exercises.result import Checked


@dataclass(frozen=True)
class RegistrationExercise:
    """An answer that is a function of `parameters`: it registers `forward` as the operator `name`
    with a gradient that calls `backward`, and returns the operator."""

    id: str
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
