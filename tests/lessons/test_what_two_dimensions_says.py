"""What "First kernels" says of matrices in numbers is so; what it leaves to readers works."""

import pytest
import torch
import triton
import triton.language as tl

from course import cost, lower, matrices, verify
from course.benching.result import recorded
from course.exercises.lessons.two_dimensions import EXERCISES
from tests.support.lesson import Lesson, script_of, share

LESSON = Lesson("First kernels")
LARGEST = 16_384
ROWS = 65_536


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    """What the lesson defines, solved: its imports, and the cells that define something."""
    kernels = LESSON.defining("transpose_kernel", "copy_kernel", "bias_gelu_kernel")
    mine = [text.split("\n\n\ncases")[0] for text in LESSON.defining("mine")]
    return script_of(tmp_path_factory.mktemp("lesson"), LESSON.imports, *kernels, *mine)


def test_the_transpose_by_tiles_is_twelve_times_as_fast_as_the_one_by_rows():
    speeds = recorded("transpose")
    rows, tiles = (speeds.at(name, LARGEST).ms for name in ("transpose_v1", "transpose"))
    assert round(rows / tiles) == 12
    assert (round(rows, 2), round(tiles, 2)) == (6.24, 0.52)


def test_transposes_reach_the_shares_of_the_copy_roof_that_the_lesson_names():
    speeds = recorded("transpose")
    assert round(share(speeds, "transpose", LARGEST), 2) == 0.97
    assert round(share(speeds, "torch", LARGEST), 2) == 0.27
    by_rows = [share(speeds, "transpose_v1", each.x) for each in speeds.of("transpose_v1")]
    assert 0.105 < max(by_rows) < 0.115
    assert round(share(speeds, "transpose_v1", LARGEST), 2) == 0.08
    copies = [share(speeds, "copy", each.x) for each in speeds.of("copy")]
    assert max(copies) < 1


def test_fusing_reaches_the_shares_and_the_times_that_the_lesson_names():
    speeds, halves = recorded("bias_gelu"), recorded("bias_gelu_bfloat16")
    names = ("bias_gelu", "bias_gelu_v1", "torch")
    assert [round(share(speeds, name, ROWS), 2) for name in names] == [0.94, 0.48, 0.40]
    times = [round(1e3 * each.at("bias_gelu", ROWS).ms) for each in (speeds, halves)]
    assert times == [536, 382]


def test_gelu_is_some_forty_instructions_per_element(lesson):
    x, bias = torch.empty(4096, 4096, dtype=torch.bfloat16), torch.empty(4096, dtype=torch.bfloat16)
    args = (x, bias, x, 4096, 4096)
    stages = lower(lesson.bias_gelu_kernel, *args, BLOCK_M=32, BLOCK_N=32, target="sm_90")
    lines = [line.split("*/", 1)[1] for line in stages.sass.splitlines() if "/*" in line[:20]]
    instructions = [line for line in lines if line.strip() and "NOP" not in line]
    assert 35 < len(instructions) / (32 * 32 / 128) < 45


@pytest.mark.parametrize(
    ("dtype", "rows", "times"),
    [(torch.float32, 8, 1), (torch.float32, 4, 2), (torch.float16, 16, 1), (torch.float16, 8, 2)],
)
def test_a_tile_is_high_enough_where_its_columns_fill_sectors(lesson, dtype, rows, times):
    x, out = (torch.empty(256, 256, dtype=dtype, device="meta") for _ in range(2))
    grid, blocks = (256 // rows, 2), {"BLOCK_M": rows, "BLOCK_N": 128}
    counted = cost(lesson.transpose_kernel, grid, x, out, 256, 256, 256, 1, **blocks, target="H200")
    least = x.numel() * x.itemsize // 32
    assert (counted.sectors_loaded, counted.sectors_stored) == (least, times * least)


def test_one_line_of_ttgir_brings_a_tile_into_the_layout_of_its_store(lesson):
    x = torch.empty(128, 128, device="meta")
    args, blocks = (x, x, 128, 128, 128, 1), {"BLOCK_M": 64, "BLOCK_N": 64}
    ttgir = lower(lesson.transpose_kernel, *args, **blocks, target="sm_90").ttgir
    assert ttgir.count("ttg.convert_layout") == 1


@triton.jit
def copy_stack_kernel(
    x_ptr, out_ptr, n_rows, n_cols, stride_xb, stride_xm, stride_xn, BLOCK: tl.constexpr
):
    batch = tl.program_id(axis=2)
    rows = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(axis=1) * BLOCK + tl.arange(0, BLOCK)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    places = batch * stride_xb + rows[:, None] * stride_xm + cols[None, :] * stride_xn
    x = tl.load(x_ptr + places, mask=mask)
    out_places = batch * n_rows * n_cols + rows[:, None] * n_cols + cols[None, :]
    tl.store(out_ptr + out_places, x, mask=mask)


def test_a_third_axis_copies_a_stack_of_any_strides():
    x = torch.randn(3, 33, 100).transpose(0, 2)
    out = torch.empty(x.shape)
    grid = (triton.cdiv(x.shape[1], 32), triton.cdiv(x.shape[2], 32), x.shape[0])
    copy_stack_kernel[grid](x, out, *x.shape[1:], *x.stride(), BLOCK=32)
    assert torch.equal(x, out)


@triton.jit
def scale_bias_relu_kernel(
    x_ptr,
    scale_ptr,
    bias_ptr,
    out_ptr,
    n_rows,
    n_cols,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(axis=1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offsets = rows[:, None] * n_cols + cols[None, :]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    scale = tl.load(scale_ptr + cols, mask=cols < n_cols)
    bias = tl.load(bias_ptr + cols, mask=cols < n_cols)
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x * scale[None, :] + bias[None, :], 0.0), mask=mask)


def scale_bias_relu(x, row):
    x = x.contiguous()
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.shape[0], 32), triton.cdiv(x.shape[1], 32))
    scale_bias_relu_kernel[grid](x, row, row, out, *x.shape, BLOCK_M=32, BLOCK_N=32)
    return out


def test_another_chain_can_be_fused_and_verified():
    finite = [
        case
        for case in matrices(dtypes=(torch.float32,), with_row=True)
        if case.inputs[0].values == "normal"
    ]
    by_torch = lambda x, row: torch.relu(x * row + row)  # noqa: E731
    result = verify(scale_bias_relu, by_torch, cases=finite, absolute=1e-6)
    assert result.right, result


def test_a_solved_fused_kernel_passes_the_lessons_own_verification(lesson):
    cases = matrices(with_row=True, dtypes=(torch.float16,))
    result = verify(lesson.mine, lesson.by_torch, cases=cases, absolute=1e-6)
    assert result.right, result


def test_the_exercises_of_the_lesson_are_eight():
    assert [exercise.name for exercise in EXERCISES] == [
        "every-pair", "any-view", "stack-of-transposes", "count-sectors", "descriptor-limits",
        "transpose-by-descriptors", "bias-and-gelu", "find-the-race",
    ]  # fmt: skip
