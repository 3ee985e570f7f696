"""The exercises on the topic "start"."""

import re

import torch
import triton

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


BLOCK = 64
"""Elements per program in what is mended."""


def _block_maxima(x: torch.Tensor, past_the_end: float = float("-inf")) -> torch.Tensor:
    padded = torch.nn.functional.pad(x, (0, -len(x) % BLOCK), value=past_the_end)
    return padded.view(-1, BLOCK).amax(dim=1)


def _by_blocks(kernel: Kernel, x: torch.Tensor) -> torch.Tensor:
    programs = triton.cdiv(len(x), BLOCK)
    out = torch.empty(programs, dtype=x.dtype, device=x.device)
    kernel[(programs,)](x, out, len(x), BLOCK_SIZE=BLOCK)
    return out


def _counted(kernel: Kernel, x: torch.Tensor, limit: float) -> torch.Tensor:
    total = torch.zeros(1, dtype=x.dtype, device=x.device)
    kernel[(triton.cdiv(len(x), BLOCK),)](x, total, limit, len(x), BLOCK_SIZE=BLOCK)
    return total


def _differences(kernel: Kernel, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(len(x) - 1, dtype=x.dtype, device=x.device)
    kernel[(triton.cdiv(len(x), BLOCK),)](x, out, len(x), BLOCK_SIZE=BLOCK)
    return out


EXERCISES = (
    KernelExercise(
        "first-kernel",
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
        "last-program",
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
        "if-becomes-mask",
        parameters=("x_ptr", "out_ptr", "n"),
        reference=lambda x: 2 * x,
        slips={"x is copied, and not doubled": lambda x: x},
        cases=tuple(Case((Input((n,)),), seed=n) for n in (2, 8, 1, 3, 4, 5, 6, 7)),
        launch=_ones_below,
        compiled=_all_are_masked,
    ),
    KernelExercise(
        "mend-the-maximum",
        parameters=("x_ptr", "out_ptr", "n", "BLOCK_SIZE"),
        reference=_block_maxima,
        cases=tuple(
            Case((Input((n,), values=values),), seed=n)
            for n, values in (
                (300, "below zero"),
                (128, "normal"),
                (1, "near the minimum"),
                (129, "normal"),
                (257, "some empty"),  # the last block's one element is -inf
            )
        ),
        launch=_by_blocks,
        slips={"the lanes past the end count as 0": lambda x: _block_maxima(x, past_the_end=0.0)},
    ),
    KernelExercise(
        "mend-the-total",
        parameters=("x_ptr", "total_ptr", "limit", "n", "BLOCK_SIZE"),
        reference=lambda x, limit: (x > limit).sum(dtype=x.dtype)[None],
        cases=tuple(
            Case((Input((n,)),), seed=n, scalars=(limit,))
            for n, limit in ((1003, 0.5), (64, 0.0), (3, -9.0), (700, 0.25))
        ),
        launch=_counted,
    ),
    KernelExercise(
        "mend-the-end",
        parameters=("x_ptr", "out_ptr", "n", "BLOCK_SIZE"),
        reference=lambda x: x[1:] - x[:-1],
        cases=tuple(Case((Input((n,)),), seed=n) for n in (300, 129, 2, 65)),
        launch=_differences,
    ),
)
