"""The exercises of lesson 09."""

import torch
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from course.exercises.kinds import Answer, GluonKernel
from course.verifying.inputs import Case, Input

HALF = torch.float16
BLOCK = 1024
"""Elements per program of exercise 09.1."""
SIDE = 64
"""Rows and columns of a tile."""


def _wide(stages: dict[str, str]) -> str:
    if "ld.global.v4.b32" in stages["ptx"]:
        return ""
    return (
        "The values are right, and no load of the compiled kernel moves 16 bytes: how many "
        "neighbors must one thread hold?"
    )


def _add(run: Answer, kernel: Answer, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    run(kernel, (-(-len(x) // BLOCK),), x, y, out, len(x), BLOCK)
    return out


def _tiled(matrix: torch.Tensor, rows: int = SIDE) -> TensorDescriptor:
    """A descriptor of tiles, each with `rows` rows and SIDE columns."""
    layout = gl.NVMMASharedLayout.get_default_for([rows, SIDE], gl.float16)
    return TensorDescriptor.from_tensor(matrix, [rows, SIDE], layout)


def _sum(run: Answer, kernel: Answer, x: torch.Tensor, slots: int) -> torch.Tensor:
    out = torch.empty(SIDE, SIDE, device=x.device)
    run(kernel, (1,), _tiled(x), out, len(x) // SIDE, slots)
    return out


def _added_up(x: torch.Tensor, slots: int) -> torch.Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return wide.unflatten(0, (-1, SIDE)).sum(0)


def _product(run: Answer, kernel: Answer, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty(len(a), SIDE, device=a.device)
    run(kernel, (1,), _tiled(a, len(a)), _tiled(b), out, len(b) // SIDE)
    return out


def _multiplied(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    product = a @ b
    return product.to(torch.promote_types(product.dtype, torch.float32))


def _strip(tiles: int, slots: int) -> Case:
    return Case((Input((tiles * SIDE, SIDE), HALF),), seed=tiles, scalars=(slots,))


def _strips(rows: int, tiles: int) -> Case:
    return Case((Input((rows, tiles * SIDE), HALF), Input((tiles * SIDE, SIDE), HALF)), seed=tiles)


RING = (_strip(7, 2), _strip(8, 3), _strip(1, 2))

EXERCISES = (
    GluonKernel(
        "09.1",
        ("x_ptr", "y_ptr", "out_ptr", "n", "BLOCK"),
        torch.add,
        # Lengths that 16 divides: else no load can be wide.
        tuple(Case((Input((n,), torch.float32),) * 2, seed=n) for n in (4096, 1008, 16)),
        launch=_add,
        compiled=_wide,
    ),
    GluonKernel(
        "09.2", ("x_desc", "out_ptr", "tiles", "SLOTS"), _added_up, RING, absolute=1e-3, launch=_sum
    ),
    GluonKernel(
        "09.3", ("x_desc", "out_ptr", "tiles", "SLOTS"), _added_up, RING, absolute=1e-3, launch=_sum
    ),
    GluonKernel(
        "09.4",
        ("a_desc", "b_desc", "out_ptr", "tiles"),
        _multiplied,
        (_strips(SIDE, 5), _strips(SIDE, 2), _strips(SIDE, 1)),
        absolute=1e-4,
        launch=_product,
    ),
    GluonKernel(
        "09.5",
        ("a_desc", "b_desc", "out_ptr", "tiles"),
        _multiplied,
        (_strips(2 * SIDE, 5), _strips(2 * SIDE, 1)),
        absolute=1e-4,
        launch=_product,
    ),
)
