"""The exercises on the topic "tensor cores"."""

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from course.exercises.judges.required_code import dots_in_16_bits, product_in_float32
from course.exercises.kinds import KernelExercise, LauncherExercise, NumberExercise, TextExercise
from course.exercises.result import Judged, wrong
from course.type_names import Kernel
from course.verifying.inputs import Case, Input

HALF = torch.float16
PERSISTENT = 3
"""Programs that exercise persistent-product starts."""


def _product(m: int, n: int, k: int, layout: str = "contiguous") -> Case:
    return Case((Input((m, k), HALF, layout), Input((k, n), HALF, layout)), seed=m + n + k)


def _depth(k: int) -> int:
    """Of a tile of product-loop: not the same in all cases, so that a kernel goes by BLOCK_K."""
    return 64 if k % 64 == 0 else 32


def _by_tiles(kernel: Kernel, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Whole tiles of 32 x 16 x 64: three sizes, so that none can stand for another."""
    c = torch.empty(a.shape[0], b.shape[1], device=a.device)
    n, k = b.shape[1], len(b)
    kernel[(len(a) // 32, n // 16)](a, b, c, n, k, BLOCK_M=32, BLOCK_N=16, BLOCK_K=_depth(k))
    return c


def _by_masked_tiles(kernel: Kernel, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, device=a.device)
    kernel[(triton.cdiv(m, 16), triton.cdiv(n, 16))](
        a, b, c, m, n, k, BLOCK_M=16, BLOCK_N=16, BLOCK_K=32
    )
    return c


def _small(kernel: Kernel, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    c = torch.empty(8, 8, device=a.device)
    kernel[(1,)](a, b, c)
    return c


def _steps(
    a: torch.Tensor, b: torch.Tensor, a_stays: bool = False, b_stays: bool = False
) -> torch.Tensor:
    """The sum of the products of tiles, if pointers stay at the first tile."""
    total = torch.zeros(len(a), b.shape[1], dtype=a.dtype, device=a.device)
    depth = _depth(len(b))
    for k in range(0, len(b), depth):
        in_a, in_b = 0 if a_stays else k, 0 if b_stays else k
        total += a[:, in_a : in_a + depth] @ b[in_b : in_b + depth]
    return total


def _b_along_rows(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The sum of the products of tiles, if those of b are as far apart in memory as they are
    deep."""
    n, flat, depth = b.shape[1], b.reshape(-1), _depth(len(b))
    total = torch.zeros(len(a), n, dtype=a.dtype, device=a.device)
    for k in range(0, len(b), depth):
        total += a[:, k : k + depth] @ flat[k : k + depth * n].reshape(depth, n)
    return total


def _last_step(a: torch.Tensor, b: torch.Tensor, depth: int) -> torch.Tensor:
    """The product of what the last step along K takes, if steps are so deep."""
    start = (len(b) - 1) // depth * depth
    return a[:, start:] @ b[start:]


def _by_descriptors(stages: dict[str, str]) -> Judged | None:
    """What is wrong with a kernel that should load and store tiles by descriptors alone."""
    if "tt.load" in stages["ttir"] or "tt.descriptor_load" not in stages["ttir"]:
        return wrong(
            "by pointers",
            "The values are right, but a tile goes by pointers: load both with x_desc.load and "
            "w_desc.load.",
        )
    return dots_in_16_bits(stages)


def _by_persistent_programs(stages: dict[str, str]) -> Judged | None:
    """What is wrong with a kernel whose programs should share the tiles of any grid."""
    if "tt.get_num_programs" not in stages["ttir"]:
        return wrong(
            "programs not asked for",
            "It does not ask how many programs run: of P programs, program p takes the tiles p, "
            "p + P, p + 2 P and so on, and P is tl.num_programs(axis=0).",
        )
    return dots_in_16_bits(stages)


def _persistent(kernel: Kernel, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Three programs, whatever the number of tiles of 16 x 32 is; c is float32 where the number of
    rows is odd."""
    dtype = torch.float32 if len(a) % 2 else a.dtype
    c = torch.empty(len(a), b.shape[1], dtype=dtype, device=a.device)
    descs = (
        TensorDescriptor.from_tensor(each, block)
        for each, block in ((a, [16, 64]), (b, [64, 32]), (c, [16, 32]))
    )
    kernel[(PERSISTENT,)](*descs, len(a), b.shape[1], len(b), BLOCK_M=16, BLOCK_N=32, BLOCK_K=64)
    return c


def _linear(m: int, n: int, k: int, x_layout: str = "contiguous") -> Case:
    inputs = (Input((m, k), HALF, x_layout), Input((n, k), HALF), Input((n,), HALF))
    return Case(inputs, seed=m + n + k)


EXERCISES = (
    KernelExercise(
        "product-loop",
        parameters=("a_ptr", "b_ptr", "c_ptr", "N", "K", "BLOCK_M", "BLOCK_N", "BLOCK_K"),
        reference=product_in_float32,
        slips={
            "the pointers of a stay where they are": lambda a, b: _steps(a, b, a_stays=True),
            "the pointers of b stay where they are": lambda a, b: _steps(a, b, b_stays=True),
            "no pointer moves: each step takes the first tiles":
            lambda a, b: _steps(a, b, a_stays=True, b_stays=True),
            "each step's product takes the place of the sum":
            lambda a, b: _last_step(a, b, _depth(len(b))),
            "the pointers of b go on by BLOCK_K, along its rows": _b_along_rows,
            "the loop ends after one step":
            lambda a, b: a[:, : _depth(len(b))] @ b[: _depth(len(b))],
        },
        cases=(
            _product(64, 48, 128), _product(32, 16, 64), _product(32, 32, 192),
            _product(32, 16, 96),
        ),
        launch=_by_tiles,
        absolute=1e-4,  # products of either sign cancel, and tensor cores cut digits off their sums
        in_float32=True,
        compiled=dots_in_16_bits,
    ),
    KernelExercise(
        "product-of-any-size",
        parameters=("a_ptr", "b_ptr", "c_ptr", "M", "N", "K", "BLOCK_M", "BLOCK_N", "BLOCK_K"),
        reference=product_in_float32,
        slips={"each step's product takes the place of the sum": lambda a, b: _last_step(a, b, 32)},
        cases=(
            _product(20, 33, 70), _product(16, 16, 64), _product(7, 16, 33), _product(16, 5, 31),
            _product(1, 1, 1),
        ),
        launch=_by_masked_tiles,
        absolute=1e-4,
        in_float32=True,
        compiled=dots_in_16_bits,
    ),
    KernelExercise(
        "eight-by-eight",
        parameters=("a_ptr", "b_ptr", "c_ptr"),
        reference=product_in_float32,
        cases=(_product(8, 8, 8), Case((Input((8, 8), HALF), Input((8, 8), HALF)), seed=1)),
        launch=_small,
        absolute=1e-5,
        in_float32=True,
        compiled=dots_in_16_bits,
    ),
    NumberExercise(
        "tiles-in-order",
        right=28,
        unit="rows and columns of tiles",
        because="132 programs are 22 columns of 6: 6 rows of tiles of a and 22 columns of tiles "
        "of b.",
        slips={
            44: "That is row after row: 4 rows and all 40 columns. Groups of 6 rows go down first.",
            264: "That is one row and one column for each program; neighbors share them.",
            132: "That is the tiles of c. Which rows of a and columns of b do they take?",
            46: "That is 6 rows and all 40 columns: 132 programs do not get so far.",
            27: "Count once more: 132 = 6 * 22.",
            22: "Those are the columns of b; the rows of a come on top.",
            88: "That is down the columns of all 48 rows; a group is 6 rows high.",
        },
        relative=0.001,
    ),
    TextExercise(
        "stages-that-fit",
        accepts=("2, 4, 9",),
        because="An iteration needs 64 x 64 of a and 64 x 128 of b, 2 bytes each: 24 KB. 64, 99 "
        "and 227 over 24, rounded down.",
        slips={
            "8, 12, 28": "That is the tile of a alone: b's must be there too.",
            "4, 6, 14": "That is the tile of b alone: a's must be there too.",
            "1, 2, 4": "That is with 4 bytes an element: a float16 has 2.",
            "5, 8, 18": "That is with 1 byte an element: a float16 has 2.",
            "3, 5, 10": "One buffer more than fits: rounded up, or by the rule for GPUs that need "
            "one buffer fewer than iterations; here each iteration under way has its own.",
            "1, 3, 8": "That is one buffer fewer than fits: none is set aside for anything else.",
            "2, 5, 9": "That is sm_89 for 99 KB, where a buffer fewer is needed; here each "
            "iteration under way has one.",
        },
    ),
    LauncherExercise(
        "linear-by-descriptors",
        parameters=("x", "w"),
        reference=lambda x, w: x @ w.T,
        slips={
            "each step's product takes the place of the sum": lambda x, w: _last_step(x, w.T, 64),
            "every tile takes the first rows of w":
            lambda x, w: x @ w[:32].T.repeat(1, triton.cdiv(len(w), 32))[:, : len(w)],
        },
        cases=tuple(
            Case((Input((m, k), HALF), Input((n, k), HALF)), seed=m + n + k)
            for m, n, k in ((33, 72, 136), (16, 32, 64), (5, 104, 328), (1, 8, 8))
        ),
        absolute=2e-3,  # products of either sign cancel, and the result is rounded to float16
        may_copy=False,
        most_launches=1,
        in_float32=True,
        compiled=_by_descriptors,
    ),
    KernelExercise(
        "persistent-product",
        parameters=("a_desc", "b_desc", "c_desc", "M", "N", "K", "BLOCK_M", "BLOCK_N", "BLOCK_K"),
        reference=lambda a, b: product_in_float32(a, b) if len(a) % 2 else a @ b,
        cases=(
            _product(72, 96, 136),  # 5 x 3 tiles
            _product(48, 64, 72),  # 3 x 2
            _product(40, 32, 64),  # 3 x 1: one tile for each program
            _product(16, 32, 64),  # one tile, so that two programs have nothing to do
            _product(18, 104, 8),  # 2 x 4
            _product(17, 32, 200),  # 2 x 1, of float32
        ),
        launch=_persistent,
        absolute=2e-3,
        own_elements=True,
        in_order=True,
        in_float32=True,
        compiled=_by_persistent_programs,
    ),
    LauncherExercise(
        "layer-in-one-launch",
        parameters=("x", "w", "bias"),
        reference=lambda x, w, bias: torch.relu(x @ w.T + bias),
        slips={
            "negative sums are cut off before the bias is added":
            lambda x, w, bias: torch.relu(x @ w.T) + bias,
            "the bias is added in each step":
            lambda x, w, bias: torch.relu(x @ w.T + bias * triton.cdiv(x.shape[1], 32)),
            "no bias is added": lambda x, w, bias: torch.relu(x @ w.T),
            "the sums are rounded to 16 bits before the bias is added":
            lambda x, w, bias: torch.relu((x @ w.T).half().double() + bias),
            "nothing is cut off at 0": lambda x, w, bias: x @ w.T + bias,
            "w is read as [K, N], and is [N, K]":
            lambda x, w, bias: torch.relu(x @ w.reshape(w.T.shape) + bias),
        },
        cases=(
            _linear(33, 50, 70), _linear(80, 128, 64),
            _linear(5, 70, 40, "left part of a wider one"), _linear(1, 1, 16),
        ),
        absolute=2e-3,  # products of either sign cancel, and the result is rounded to float16
        most_launches=1,
        in_float32=True,
        compiled=dots_in_16_bits,
    ),
)  # fmt: skip
