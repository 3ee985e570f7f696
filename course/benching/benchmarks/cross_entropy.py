"""Cross-entropy: right against torch in float64; fast against torch's and a compiled one."""

import torch
from torch.nn.functional import cross_entropy as torchs_cross_entropy

from course.benching.benchmarks import Operation, Study
from course.benching.series import peers, row_study, series_of, versions_of
from course.verifying.inputs import FLOATS, Case, Input

VERSIONS = versions_of("cross_entropy")
WIDTHS = (1000, 4096, 8192, 32_000, 50_257, 65_536, 128_256, 262_144)
"""From the classes of ImageNet to the vocabularies of language models."""


def _by_torch(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return torchs_cross_entropy(x, target.long(), reduction="none")


def _in_float32(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Losses in float32 at least, as the course's own are, and as models compute them."""
    return _by_torch(x.to(torch.promote_types(x.dtype, torch.float32)), target)


def _cases() -> list[Case]:
    """Rows of less than a block, of whole blocks and of more. "small" targets, from 0 to 79, are
    columns of all of them."""

    def case(
        rows: int, columns: int, dtype: torch.dtype, layout: str = "contiguous",
        values: str = "normal", targets: torch.dtype = torch.int64,
    ) -> Case:  # fmt: skip
        target = Input((rows,), targets, values="small")
        return Case((Input((rows, columns), dtype, layout, values), target), seed=columns)

    cases = [case(0, 80, torch.float32), case(8193, 8191, torch.float32)]
    for dtype in FLOATS:
        for shape in ((1, 80), (33, 100), (64, 1000), (5, 4096), (3, 4097), (2, 50_257)):
            cases.append(case(*shape, dtype))
        for layout in ("offset by one element", "left part of a wider one", "transposed"):
            cases.append(case(3, 9001, dtype, layout))
        for values in ("large", "below zero", "NaN and inf"):
            cases.append(case(3, 9001, dtype, values=values))
        cases.append(case(33, 100, dtype, targets=torch.int32))
    return cases


def _bytes(x: torch.Tensor, target: torch.Tensor) -> int:
    return x.nbytes + target.nbytes + 4 * x.shape[0]  # read both, write a float32 per row


def _study(name: str, dtype: torch.dtype) -> Study:
    def inputs(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows, columns = x.shape
        return x, torch.randint(0, columns, (rows,), device="cuda")

    return row_study(
        name,
        dtype,
        WIDTHS,
        inputs,
        _bytes,
        series=series_of(VERSIONS) | peers(_by_torch, _in_float32, copies=1, dtype=dtype),
    )


OPERATION = Operation(
    name="cross_entropy",
    ladder=VERSIONS,
    reference=_in_float32,
    cases=_cases(),
    absolute=2e-6,  # the loss cancels where the target has almost all of the row's share
    studies=(
        _study("cross_entropy", torch.float32), _study("cross_entropy_bfloat16", torch.bfloat16),
    ),
)  # fmt: skip
