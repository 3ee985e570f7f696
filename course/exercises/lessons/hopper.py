"""The exercises on the topic "hopper"."""

import math
import re
from collections.abc import Callable

import torch
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from course.exercises.judges.required_code import product_in_float32
from course.exercises.judges.rings_apart import rings_apart
from course.exercises.kinds import GluonExercise
from course.exercises.result import Judged, wrong
from course.type_names import Kernel
from course.verifying.inputs import Case, Input

HALF = torch.float16
Run = Callable[..., object]
"""Launches a kernel, as `run(kernel, grid, *args, num_warps=4)`."""
BLOCK = 1024
"""Elements per program of exercise layout-for-wide-loads."""
GIVEN_BACK_LATE = re.compile(
    r"dot_wait .*\{pendings = 1\b(?:(?!arrive_barrier|pendings)[\s\S])*? math\.exp"
)
"""In TTGIR such a wait, with powers behind it before anything arrives."""
ONE_UNDER_WAY = re.compile(r"wgmma\.wait_group\.sync\.aligned\s+1;")
"""A wait in PTX that leaves the newest product running."""
SIDE = 64
"""Rows and columns of a tile."""
SCALE = math.log2(math.e) / SIDE**0.5
BLOCK_M, BLOCK_N = 64, 32
"""Queries and keys of a tile of exercise order-of-tiles."""


def _wide(stages: dict[str, str]) -> Judged | None:
    if "ld.global.v4.b32" in stages["ptx"]:
        # By each axis of a blocked layout, or where a linear one begins with the second lane.
        sizes = re.findall(r"(?:sizePerThread|lane) = \[+([\d, ]+)", stages["ttgir"])
        held = max((int(size) for each in sizes for size in each.split(",")), default=4)
        if held == 4:
            return None
        return wrong(
            "lanes apart",
            "The values are right, and a load moves 16 bytes per thread. But a thread holds "
            f"{held} neighbors, so that the next one's bytes begin {4 * held} bytes further on: a "
            "warp touches more sectors with each load than it needs.",
        )
    return wrong(
        "narrow loads",
        "The values are right, and no load of the compiled kernel moves 16 bytes: how many "
        "neighbors must one thread hold?",
    )


def _add(run: Run, kernel: Kernel, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    run(kernel, (-(-len(x) // BLOCK),), x, y, out, len(x), BLOCK)
    return out


def _tiled(matrix: torch.Tensor, rows: int = SIDE) -> TensorDescriptor:
    """A descriptor of tiles, each with `rows` rows and SIDE columns."""
    layout = gl.NVMMASharedLayout.get_default_for([rows, SIDE], gl.float16)
    return TensorDescriptor.from_tensor(matrix, [rows, SIDE], layout)


def _sum(run: Run, kernel: Kernel, x: torch.Tensor, slots: int) -> torch.Tensor:
    out = torch.empty(SIDE, SIDE, device=x.device)
    run(kernel, (1,), _tiled(x), out, len(x) // SIDE, slots)
    return out


def _added_up(x: torch.Tensor, slots: int) -> torch.Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    total: torch.Tensor = wide.unflatten(0, (-1, SIDE)).sum(0)
    return total


def _product(run: Run, kernel: Kernel, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty(len(a), SIDE, device=a.device)
    run(kernel, (1,), _tiled(a, len(a)), _tiled(b), out, len(b) // SIDE)
    return out


def _attend(
    run: Run, kernel: Kernel, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> torch.Tensor:
    out = torch.empty(q.shape, device=q.device)
    for consumers in (1, 2):
        rows = SIDE * consumers
        arguments = (_tiled(q, rows), _tiled(k), _tiled(v), out, len(k) // SIDE, SCALE)
        run(kernel, (len(q) // rows,), *arguments, consumers, True)
    return out


def _attend_apart(
    run: Run, kernel: Kernel, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> torch.Tensor:
    """With a producer for each operand: what is right may not depend on the order of one."""
    consume = kernel.fn.__globals__.get("consume")
    if consume is None:
        return _attend(run, kernel, q, k, v)
    out = torch.empty(q.shape, device=q.device)
    arguments = (_tiled(q), _tiled(k), _tiled(v), out, len(k) // SIDE, SCALE)
    run(rings_apart(consume), (len(q) // SIDE,), *arguments)
    return out


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = q @ k.mT / SIDE**0.5
    wide = torch.promote_types(q.dtype, torch.float32)
    return torch.softmax(scores, dim=-1).to(wide) @ v.to(wide)


def _waits_apart(stages: dict[str, str]) -> Judged | None:
    if not ONE_UNDER_WAY.search(stages["ptx"]):
        return wrong(
            "one wait",
            "The values are right, and the softmax waits until both products have ended: wait for "
            "the scores alone, and leave the newest product under way.",
        )
    if GIVEN_BACK_LATE.search(stages["ttgir"]):
        return wrong(
            "K kept",
            "The values are right, and the producer waits for K's buffer during the softmax, "
            "though nothing reads it any more: give it back as soon as the scores have ended.",
        )
    return None


def _one_left(stages: dict[str, str]) -> Judged | None:
    if ONE_UNDER_WAY.search(stages["ptx"]):
        return None
    return wrong(
        "no product under way",
        "The values are right, and every product has ended before the next one is started: leave "
        "the newest one under way.",
    )


def _asynchronous(stages: dict[str, str]) -> Judged | None:
    if "isAsync = true" in stages["ttgir"]:
        return None
    return wrong(
        "synchronous product",
        "The values are right, and the line that starts a product waits for it as well: start it "
        "with is_async=True, and wait for it by warpgroup_mma_wait.",
    )


def _order(run: Run, kernel: Kernel, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    blocks = len(q) // BLOCK_M
    out = torch.zeros(blocks, 3, dtype=torch.int32, device=q.device)
    run(kernel, (blocks,), out, len(q), len(k), BLOCK_M, BLOCK_N)
    return out


def _counted(q: torch.Tensor, k: torch.Tensor, longest_first: bool = True) -> torch.Tensor:
    """For each tile of queries its first row, and the tiles of keys that are seen, and whole."""
    n, m = len(k), len(q)
    tiles = -(-n // BLOCK_N)
    seen = torch.zeros(m, tiles * BLOCK_N, dtype=torch.bool)
    seen[:, :n] = torch.ones(m, n).tril(n - m).bool()
    by_tile = seen.unflatten(1, (-1, BLOCK_N)).unflatten(0, (-1, BLOCK_M)).movedim(2, 1).flatten(2)
    first = torch.arange(0, m, BLOCK_M)
    rows = torch.stack([first, by_tile.any(2).sum(1), by_tile.all(2).sum(1)], dim=1)
    return (rows.flip(0) if longest_first else rows).int().to(q.device)


def _lengths(queries: int, keys: int) -> Case:
    return Case((Input((queries, 1)), Input((keys, 1))), seed=keys)


def _strip(tiles: int, slots: int) -> Case:
    return Case((Input((tiles * SIDE, SIDE), HALF),), seed=tiles, scalars=(slots,))


def _strips(rows: int, tiles: int) -> Case:
    return Case((Input((rows, tiles * SIDE), HALF), Input((tiles * SIDE, SIDE), HALF)), seed=tiles)


RING = (_strip(7, 2), _strip(8, 3), _strip(1, 2))

EXERCISES = (
    GluonExercise(
        "layout-for-wide-loads", ("x_ptr", "y_ptr", "out_ptr", "n", "BLOCK"), torch.add,
        # Lengths that 16 divides: else no load can be wide.
        tuple(Case((Input((n,), torch.float32),) * 2, seed=n) for n in (4096, 1008, 16)),
        launch=_add, compiled=_wide,
    ),
    GluonExercise(
        "phase-of-a-round", ("x_desc", "out_ptr", "tiles", "SLOTS"), _added_up, RING, absolute=1e-3,
        launch=_sum,
    ),
    GluonExercise(
        "consumer-of-a-ring", ("x_desc", "out_ptr", "tiles", "SLOTS"), _added_up, RING,
        absolute=1e-3, launch=_sum,
    ),
    GluonExercise(
        "product-and-waits", ("a_desc", "b_desc", "out_ptr", "tiles"), product_in_float32,
        (_strips(SIDE, 5), _strips(SIDE, 2), _strips(SIDE, 1)), absolute=1e-4, launch=_product,
        compiled=_asynchronous,
    ),
    GluonExercise(
        "product-under-way", ("a_desc", "b_desc", "out_ptr", "tiles"), product_in_float32,
        (_strips(SIDE, 7), _strips(SIDE, 2), _strips(SIDE, 1)), absolute=1e-4, launch=_product,
        compiled=_one_left,
    ),
    GluonExercise(
        "two-consumers", ("a_desc", "b_desc", "out_ptr", "tiles"), product_in_float32,
        (_strips(2 * SIDE, 5), _strips(2 * SIDE, 1)), absolute=1e-4, launch=_product,
    ),
    GluonExercise(
        "scores-ahead",
        ("q_desc", "k_desc", "v_desc", "out_ptr", "tiles", "scale", "CONSUMERS", "AHEAD"),
        _attention,
        tuple(Case((Input((n, SIDE), HALF),) * 3, seed=n) for n in (384, 128)),
        absolute=1e-3, launch=_attend, proof=_attend_apart, compiled=_waits_apart,
    ),
    GluonExercise(
        "order-of-tiles", ("out_ptr", "n_queries", "n_keys", "BLOCK_M", "BLOCK_N"), _counted,
        (
            _lengths(256, 256), _lengths(128, 300), _lengths(256, 100), _lengths(64, 64),
            _lengths(128, 159),  # the first query's last key ends a tile
            _lengths(256, 257),  # the last query's last key begins one
        ),
        launch=_order,
        slips={"the shortest tiles come first": lambda q, k: _counted(q, k, longest_first=False)},
    ),
)  # fmt: skip
