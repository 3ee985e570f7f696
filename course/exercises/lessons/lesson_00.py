"""The exercises of lesson 00."""

import re

import torch

from course.exercises.kinds import ChoiceExercise, KernelExercise
from course.exercises.result import Judged, wrong
from course.type_names import Kernel
from course.verifying.inputs import Case, Input


def _ones_below(kernel: Kernel, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    kernel[(1,)](x, out, x.numel())
    return out


def _one_each(kernel: Kernel, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    kernel[(x.numel(),)](x, y, out)
    return out


def _all_are_masked(stages: dict[str, str]) -> Judged | None:
    unmasked = re.search(r"tt\.load %\w+ :|tt\.store %\w+, %\w+ :", stages["ttir"])
    text = "The values are right, but a load or store has no mask."
    return wrong("no mask", text) if unmasked else None


EXERCISES = (
    KernelExercise(
        "00.3",
        parameters=("x_ptr", "y_ptr", "out_ptr"),
        reference=lambda x, y: x - y,
        slips={
            "y comes first: y - x": lambda x, y: y - x,
            "every program takes the first element of y": lambda x, y: x - y[0],
        },
        cases=tuple(Case((Input((n,)),) * 2, seed=n) for n in (5, 1, 8, 33)),
        launch=_one_each,
    ),
    ChoiceExercise(
        "00.1",
        right="b",
        why={
            "a": "No program is stopped for you: without the mask, program 2 reads and writes "
            "at the offsets 10 and 11 too.",
            "b": "All four lanes of program 2 run; the mask keeps those with the offsets 10 and "
            "11 from memory.",
            "c": "Nothing checks an offset against a tensor's length: a pointer does not know it.",
            "d": "A program has as many lanes as its block, whatever the tensor's length.",
        },
    ),
    KernelExercise(
        "00.2",
        parameters=("x_ptr", "out_ptr", "n"),
        reference=lambda x: 2 * x,
        slips={"x is copied, and not doubled": lambda x: x},
        cases=tuple(Case((Input((n,)),), seed=n) for n in (2, 8, 1, 3, 4, 5, 6, 7)),
        launch=_ones_below,
        compiled=_all_are_masked,
    ),
)
