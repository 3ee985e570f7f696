"""The exercises of lesson 08."""

import torch
import triton

from course.exercises.cause_gone import CauseGone
from course.exercises.diagnosis import Diagnosis
from course.exercises.kinds import Answer, Choice, Kernel
from course.verifying.inputs import Case, Input


def _cause(exercise_id: str, right: str, **why: str) -> Choice:
    """One of the six reasons for a slow kernel, by the letters of the lesson's table."""
    return Choice(exercise_id, right=right, why=why)


def _meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def _gate(kernel: Answer, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    kernel[(triton.cdiv(len(x), 128),)](x, y, out, len(x), BLOCK_SIZE=128)
    return out


EXERCISES = (
    Diagnosis(
        cause=_cause(
            "08.1",
            right="c",
            a="1,024 programs are enough for any GPU.",
            b="The loads are narrow, but as a consequence: lanes that follow one another are no "
            "neighbors in memory, and no wider load could take several of them.",
            c="Lanes that follow one another are as many elements apart as there are programs, so "
            "each pays for a sector of its own.",
            d="A thread has 8 elements of each vector: `lower` reports no spilled bytes.",
            e="There is no loop in it.",
            f="There is no tl.dot in it.",
        ),
        mended=Kernel(
            "08.1",
            parameters=("x_ptr", "y_ptr", "out_ptr", "n_elements", "BLOCK_SIZE"),
            reference=lambda x, y: torch.nn.functional.silu(x) * y,
            cases=tuple(Case((Input((n,)), Input((n,))), seed=n) for n in (1001, 128, 1, 640)),
            launch=_gate,
            slips={
                "it is x * y without the sigmoid": lambda x, y: x * y,
                "the sigmoid is that of y": lambda x, y: x * y * torch.sigmoid(y),
            },
        ),
        counted=CauseGone(
            ("sectors",),
            grid=(64,),
            args=lambda: (*(_meta(2**16) for _ in range(3)), 2**16),
            settings={"BLOCK_SIZE": 1024},
        ),
    ),
)
