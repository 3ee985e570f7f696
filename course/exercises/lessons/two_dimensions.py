"""The exercises on the topic "two dimensions"."""

import math

import torch
import triton
from torch.nn.functional import gelu, pad

from course.exercises.kinds import (
    ChoiceExercise,
    DiagnosisExercise,
    KernelExercise,
    LauncherExercise,
    NumberExercise,
)
from course.exercises.result import Judged, wrong
from course.type_names import Kernel
from course.verifying.inputs import Case, Input


def _outer_sum(kernel: Kernel, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    m, n = len(x), len(y)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    block_m, block_n = (16, 32) if m < 30 else (8, 4)
    kernel[(triton.cdiv(m, block_m), triton.cdiv(n, block_n))](
        x, y, out, m, n, BLOCK_M=block_m, BLOCK_N=block_n
    )
    return out


def _matrix(rows: int, cols: int, layout: str = "contiguous") -> Case:
    return Case((Input((rows, cols), layout=layout),), seed=rows + cols)


def _matrices(*shapes: tuple[int, int]) -> tuple[Case, ...]:
    return tuple(_matrix(*shape) for shape in shapes)


def _down(bias: torch.Tensor, rows: int) -> torch.Tensor:
    """A bias along the rows, with zeros where it is too short."""
    return pad(bias, (0, max(0, rows - len(bias))))[:rows, None]


def _with_bias(rows: int, cols: int, dtype: torch.dtype) -> Case:
    return Case((Input((rows, cols), dtype), Input((cols,), dtype)), seed=rows + cols)


def _square(n: int) -> tuple[int, int]:
    """The sides of a square of more than n elements: a grid of fixed size that covers n elements
    falls short on one side."""
    return (math.isqrt(n) + 1,) * 2


def _square_of_fours(n: int) -> tuple[int, int]:
    """As `_square`, with sides that are multiples of 4, as a descriptor of float32 asks for."""
    side, _ = _square(n)
    return (4 * (side // 4 + 1),) * 2


def _tiles_not_turned(x: torch.Tensor) -> torch.Tensor:
    """Each tile of 32 x 32 in its turned place, as it was loaded."""
    rows, cols = x.shape
    tiles = pad(x, (0, -cols % 32, 0, -rows % 32)).unfold(0, 32, 32).unfold(1, 32, 32)
    return tiles.permute(1, 2, 0, 3).flatten(2).flatten(0, 1)[:cols, :rows]


def _smooth(x: torch.Tensor) -> torch.Tensor:
    return (x + pad(x, (0, 0, 1, 0))[:-1]) / 2


def _by_descriptors(stages: dict[str, str]) -> Judged | None:
    if "tt.descriptor_load" in stages["ttir"] and "tt.descriptor_store" in stages["ttir"]:
        return None
    return wrong(
        "by pointers",
        "The values are right, but a tile goes by pointers: load it with x_desc.load and store it "
        "with out_desc.store.",
    )


EXERCISES = (
    KernelExercise(
        "every-pair",
        parameters=("x_ptr", "y_ptr", "out_ptr", "m", "n", "BLOCK_M", "BLOCK_N"),
        reference=lambda x, y: x[:, None] + y[None, :],
        cases=tuple(
            Case((Input((m,)), Input((n,))), seed=m)
            for m, n in ((20, 70), (16, 32), (1, 1), (33, 5), (3, 100))
        ),
        launch=_outer_sum,
        own_elements=True,
    ),
    LauncherExercise(
        "any-view",
        parameters=("x",),
        reference=lambda x: (x / 2).contiguous(),
        cases=(
            _matrix(40, 70), _matrix(1, 100), _matrix(33, 65, "left part of a wider one"),
            _matrix(65, 40, "transposed"), _matrix(33, 20, "every second element"),
            _matrix(100, 1), _matrix(32, 64, "offset by one element"),
        ),
        longer=lambda n: _matrix(*_square(n)),
        may_copy=False,
        contiguous=True,
        most_bytes=lambda x: 2 * 4 * x.numel(),
    ),
    LauncherExercise(
        "stack-of-transposes",
        parameters=("x",),
        reference=lambda x: x.transpose(1, 2).contiguous(),
        slips={
            "load and store use the same formula":
            lambda x: x.reshape(x.shape[0], x.shape[2], x.shape[1])
        },
        cases=tuple(
            Case((Input(shape),), seed=sum(shape))
            for shape in ((3, 20, 70), (1, 64, 64), (2, 33, 5), (5, 1, 40), (4, 65, 33))
        ),
        longer=lambda n: Case((Input((1, *_square(n))),), seed=n),
        may_copy=False,
        contiguous=True,
        own_elements=True,
        most_launches=1,
    ),
    NumberExercise(
        "count-sectors",
        right=16,
        unit="sectors",
        relative=0.0,
        because="The threads are 16 bytes apart, so two share a sector.",
        slips={
            32: "8 elements of float16 are 16 bytes, so a sector holds the elements of two "
            "threads.",
            8: "A sector has 32 bytes, and the threads are 16 bytes apart.",
            4: "That would be neighboring float32 elements; these are 8 elements of float16 "
            "apart.",
            2: "That would be neighboring elements; these are 8 apart.",
            512: "Those are the bytes from the first element to the last.",
        },
    ),
    ChoiceExercise(
        "descriptor-limits",
        right="c",
        why={
            "a": "Its strides are (1, 64): the last one must be 1.",
            "b": "It begins 4 bytes after x, and must begin at a multiple of 16.",
            "c": "Its strides are (64, 1), a row is 256 bytes, and it begins 256 bytes after x: "
            "all multiples of 16.",
            "d": "Its strides are (64, 2): the last one must be 1.",
        },
    ),
    LauncherExercise(
        "transpose-by-descriptors",
        parameters=("x",),
        reference=lambda x: x.T.contiguous(),
        slips={"a tile is stored without .T": _tiles_not_turned},
        cases=_matrices((20, 72), (32, 32), (4, 100), (132, 64), (40, 4)),
        longer=lambda n: _matrix(*_square_of_fours(n)),
        may_copy=False,
        contiguous=True,
        most_launches=1,
        compiled=_by_descriptors,
    ),
    LauncherExercise(
        "bias-and-gelu",
        parameters=("x", "bias"),
        reference=lambda x, bias: gelu(x + bias),
        slips={
            "x + bias is rounded to 16 bits before the GELU":
            lambda x, bias: gelu((x + bias).half().double()),
            "GELU is approximated by tanh": lambda x, bias: gelu(x + bias, approximate="tanh"),
            "GELU is approximated by a sigmoid":
            lambda x, bias: (x + bias) * torch.sigmoid(1.702 * (x + bias)),
            "no bias is added": lambda x, bias: gelu(x),
            "the bias has one number per row": lambda x, bias: gelu(x + _down(bias, len(x))),
        },
        cases=tuple(
            _with_bias(rows, cols, dtype)
            for dtype in (torch.float16, torch.bfloat16)
            for rows, cols in ((40, 70), (1, 100), (33, 65), (64, 32))
        ),
        longer=lambda n: _with_bias(*_square(n), torch.float16),
        absolute=1e-6,  # 1 + erf(t) cancels where t is below zero
        in_float32=True,
        # x is read and the result written once; the bias, which stays in the cache, is read by each
        # row of tiles, however low.
        most_bytes=lambda x, bias: 2 * x.nbytes + len(x) * bias.nbytes,
    ),
    DiagnosisExercise(
        cause=ChoiceExercise(
            "find-the-race",
            right="b",
            why={
                "a": "No two programs store to the same element: each stores to its own tile.",
                "b": "The first row of a tile needs a row of the tile above, which belongs to "
                "another program.",
                "c": "The mask is right on both axes: nothing outside the matrix is touched.",
                "d": "For row 0 the mask is false and `other` is 0, which is what was asked for.",
            },
        ),
        mended=LauncherExercise(
            "find-the-race",
            parameters=("x",),
            reference=_smooth,
            cases=_matrices((20, 70), (1, 100), (33, 65), (64, 32), (100, 1)),
            longer=lambda n: _matrix(*_square(n)),
            contiguous=True,
        ),
    ),
)  # fmt: skip
