"""The exercises on the topic "softmax"."""

import math

import torch
import triton

from course.exercises.judges.required_code import any_number_of_rows
from course.exercises.kinds import ChoiceExercise, KernelExercise, LauncherExercise, NumberExercise
from course.type_names import Kernel
from course.verifying.inputs import Case, Input


def _rows(rows: int, cols: int, layout: str = "contiguous", values: str = "normal") -> Case:
    return Case((Input((rows, cols), layout=layout, values=values),), seed=rows + cols)


SLICED = _rows(3, 33, "left part of a wider one")


def _reduce_rows(kernel: Kernel, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(len(x), dtype=x.dtype, device=x.device)
    kernel[(len(x),)](x, out, x.shape[1], x.stride(0), BLOCK_N=triton.next_power_of_2(x.shape[1]))
    return out


def _reduce_tiles(kernel: Kernel, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(len(x), dtype=x.dtype, device=x.device)
    block_n = triton.next_power_of_2(x.shape[1])
    grid = (triton.cdiv(len(x), 4),)
    kernel[grid](x, out, *x.shape, x.stride(0), BLOCK_M=4, BLOCK_N=block_n)
    return out


def _of_rows(kernel: Kernel, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    kernel[(len(x),)](x, out, x.shape[1], x.stride(0), BLOCK_N=triton.next_power_of_2(x.shape[1]))
    return out


def _backward(kernel: Kernel, out: torch.Tensor, d_out: torch.Tensor) -> torch.Tensor:
    dx = torch.empty_like(out)
    kernel[(len(out),)](out, d_out, dx, out.shape[1], BLOCK_N=triton.next_power_of_2(out.shape[1]))
    return dx


def _merge(kernel: Kernel, m: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    merged = torch.empty_like(m)
    total = _of_halves(m, total)
    kernel[(triton.cdiv(m.shape[1], 32),)](m, total, merged, m.shape[1], BLOCK=32)
    return merged


def _merged(m: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """[maxima, sums] of whole rows from those of their halves.

    An empty half has the maximum -inf and the sum 0.
    """
    largest = m.max(dim=0).values
    scale = torch.where(
        m == -torch.inf,
        torch.zeros_like(m),
        torch.exp(m - torch.where(largest.isinf(), 0, largest)),
    )
    return torch.stack([largest, (total * scale).sum(dim=0)])


def _largest_with_zeros(x: torch.Tensor) -> torch.Tensor:
    """Each row's maximum with 0 in the lanes past its end, if there are any."""
    largest, cols = x.max(dim=1).values, x.shape[1]
    return largest if cols == triton.next_power_of_2(cols) else largest.clamp(min=0)


def _log_of_sum(x: torch.Tensor) -> torch.Tensor:
    """The logarithm of each row's sum of exp(x - maximum)."""
    return torch.logsumexp(x, 1, keepdim=True) - x.max(1, True).values


def _scaled_first(x: torch.Tensor) -> torch.Tensor:
    """Log-softmax in powers of two, if the row is scaled before its maximum is taken off."""
    scaled = x / math.log(2)
    scaled = scaled.masked_fill(scaled < torch.finfo(torch.float32).min, -torch.inf)
    shifted = scaled - scaled.max(1, True).values
    return (shifted - torch.log2(torch.exp2(shifted).sum(1, True))) * math.log(2)


def _of_halves(m: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """The halves' sums; that of an empty half is 0."""
    return total.where(m > -torch.inf, 0.0)


def _nan_if_empty(m: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """The merged maxima and sums, with NaN where both halves are empty."""
    largest, sums = _merged(m, total)
    return torch.stack([largest, sums.where(largest > -torch.inf, torch.nan)])


def _second_unscaled(m: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """The merged maxima and sums, if only the first half is brought to the common maximum."""
    first, second = _of_halves(m, total)
    largest = m.max(0).values
    scale = torch.exp(m[0] - largest.where(largest > -torch.inf, 0.0))
    return torch.stack([largest, first * scale + second])


def _factors_turned_round(m: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """The merged maxima and sums, if exp(new - old) takes the place of exp(old - new)."""
    largest = m.max(0).values
    factors = torch.exp(largest.where(largest > -torch.inf, 0.0) - m)
    return torch.stack([largest, (_of_halves(m, total) * factors).sum(0)])


EXERCISES = (
    KernelExercise(
        "row-sums",
        parameters=("x_ptr", "out_ptr", "n_cols", "stride_xm", "BLOCK_N"),
        reference=lambda x: x.sum(dim=1),
        slips={
            "lanes without an element count as 1":
            lambda x: x.sum(dim=1) + triton.next_power_of_2(x.shape[1]) - x.shape[1],
            "the sum is divided by the number of columns": lambda x: x.mean(dim=1),
            "every program takes the first row": lambda x: x[:1].sum(dim=1).expand(len(x)),
        },
        cases=(_rows(5, 781), _rows(4, 64), SLICED, _rows(6, 1), _rows(1, 1000)),
        launch=_reduce_rows,
        absolute=1e-4,  # sums cancel
    ),
    KernelExercise(
        "row-maxima",
        parameters=("x_ptr", "out_ptr", "n_cols", "stride_xm", "BLOCK_N"),
        reference=lambda x: x.max(dim=1).values,
        slips={
            "lanes without an element count as 0": _largest_with_zeros,
        },
        cases=(
            _rows(5, 100, values="below zero"), _rows(4, 64),
            _rows(3, 33, "left part of a wider one", "below zero"),
            _rows(6, 1, values="below zero"), _rows(2, 781), _rows(5, 3, values="near the minimum"),
            _rows(40, 3, values="some empty"),  # some rows hold nothing but -inf
        ),
        launch=_reduce_rows,
    ),
    KernelExercise(
        "log-softmax",
        parameters=("x_ptr", "out_ptr", "n_cols", "stride_xm", "BLOCK_N"),
        reference=lambda x: torch.log_softmax(x, dim=1),
        slips={
            "the logarithm is the one to base 2":
            lambda x: x - x.max(1, True).values - _log_of_sum(x) / math.log(2),
            "the logarithm is that of a finished softmax, in which small shares are 0":
            lambda x: torch.softmax(x.float(), 1).log().to(x.dtype),
            "the logarithm of the sum is taken off twice":
            lambda x: x - x.max(1, True).values - 2 * _log_of_sum(x),
            "the maximum is not taken off again": lambda x: x - _log_of_sum(x),
            "a number near -3.4e38 is multiplied before the maximum is taken off, which leaves the "
            "range of float32": _scaled_first,
        },
        cases=(
            _rows(5, 100), _rows(4, 64, values="far apart"), SLICED,
            _rows(6, 1), _rows(2, 781), _rows(2, 3, values="near the minimum"),
        ),
        launch=_of_rows,
        absolute=1e-5,
    ),
    KernelExercise(
        "merge-two-halves",
        parameters=("m_ptr", "sum_ptr", "out_ptr", "n", "BLOCK"),
        reference=_merged,
        slips={
            "the sums are added as they are, each in units of its own maximum":
            lambda m, total: torch.stack([m.max(0).values, _of_halves(m, total).sum(0)]),
            "one of the two sums is not scaled": _second_unscaled,
            "-inf is taken from -inf, which is NaN, where both halves are empty": _nan_if_empty,
            "the factors are exp(new - old), and must be exp(old - new)": _factors_turned_round,
        },
        cases=tuple(
            Case((Input((2, n), values=values), Input((2, n), values="each at least 1")), seed=n)
            for n, values in (
                (40, "normal"), (32, "far apart"), (50, "some empty"), (1, "normal"),
                (20, "near the minimum"),
            )
        ),
        launch=_merge,
    ),
    NumberExercise(
        "online-bytes",
        right=805.306368,
        unit="megabytes",
        because="Each element is loaded twice and stored once: 3 x 4 bytes for each of 2^26 "
            "elements.",
        slips={
            536.870912: "That is each element read once and written once: the online version "
                "reads the row twice.",
            1073.741824: "That is the version with a sweep of its own for the maximum and one "
                "for the sum.",
            268.435456: "That is one reading alone.",
            768: "That is in units of 2^20 bytes.",
        },
    ),
    ChoiceExercise(
        "narrow-rows",
        right="b",
        why={
            "a": "The bytes are the same: 2 x 2 for each element.",
            "b": "A program has 4 warps, 128 threads, for 64 elements: half of them repeat the "
            "others, and each program pays its start to move 256 bytes.",
            "c": "A row of 64 needs 1 register in half of the threads: nothing spills.",
            "d": "exp takes as long for each element as in a wide row.",
        },
    ),
    KernelExercise(
        "any-number-of-rows",
        parameters=("x_ptr", "out_ptr", "n_rows", "n_cols", "stride_xm", "BLOCK_M", "BLOCK_N"),
        reference=lambda x: x.max(dim=1).values,
        slips={"lanes without an element count as 0": _largest_with_zeros},
        cases=(  # 16 divides every width, so that the compiler must be told that it does
            _rows(48, 80, values="below zero"), _rows(1, 64),
            _rows(33, 80, "left part of a wider one", "below zero"),
            _rows(6, 48, values="below zero"), _rows(16, 16),
        ),
        launch=_reduce_tiles,
        compiled=any_number_of_rows,
    ),
    LauncherExercise(
        "tuned-in-place",
        parameters=("x",),
        reference=lambda x: torch.softmax(x, dim=1),
        cases=(_rows(5, 100), _rows(4, 64), _rows(3, 257), _rows(1, 1)),
        trials=2,
        in_place=True,
    ),
    LauncherExercise(
        "column-sums",
        parameters=("x",),
        reference=lambda x: x.sum(dim=0),
        cases=(_rows(200, 50), _rows(64, 64), _rows(1, 3), _rows(33, 130), _rows(500, 1),
               _rows(40, 30, "left part of a wider one"), _rows(40, 30, "transposed"),
               _rows(20, 1100)),
        absolute=1e-4,
        # The sums of each tile of 16 rows are written and read again, by an atomic or another
        # launch; and the result is written.
        most_bytes=lambda x: x.nbytes + 4 * x.shape[1] * (2 * triton.cdiv(x.shape[0], 16) + 1),
    ),
    KernelExercise(
        "softmax-backwards",
        parameters=("out_ptr", "d_out_ptr", "dx_ptr", "n_cols", "BLOCK_N"),
        reference=lambda out, d_out: out * (d_out - (out * d_out).sum(dim=1, keepdim=True)),
        slips={
            "nothing is subtracted from d_out": lambda out, d_out: out * d_out,
            "the sum is that of d_out alone":
            lambda out, d_out: out * (d_out - d_out.sum(dim=1, keepdim=True)),
            "the sum is added, and not subtracted":
            lambda out, d_out: out * (d_out + (out * d_out).sum(dim=1, keepdim=True)),
        },
        cases=tuple(
            Case((Input((rows, cols), values="share"), Input((rows, cols))), seed=rows + cols)
            for rows, cols in ((5, 100), (4, 64), (3, 257), (6, 1))
        ),
        launch=_backward,
        absolute=1e-6,
    ),
)  # fmt: skip
