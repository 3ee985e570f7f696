"""What "Softmax" says is what was recorded and compiled; what it leaves to readers works."""

import inspect
import math
import re

import pytest
import torch
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from triton.language.extra import libdevice

from course import MODE, cost, diagnose, lower, observed, recorded
from course.gpus.measured import recorded_facts
from kernels.softmax import softmax_kernel_v2
from tests.support.lesson import Lesson, empty, script_of, share

LESSON = Lesson("Softmax")


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    """The lesson's kernels and launchers, by their names."""
    texts = LESSON.defining("softmax_kernel", "online_kernel", "rows_kernel")
    return script_of(tmp_path_factory.mktemp("lesson"), LESSON.imports, *texts)


def loads_of(kernel, n):
    """Global loads per thread for rows of n float32, and how many of them are wide."""
    x = empty(512, n)
    counts = lower(kernel, x, x, n, n, BLOCK_N=1024, target="sm_90").counts["ptx"]
    return counts["global loads"], counts["vectorized global loads"]


NARROW = recorded("softmax_bfloat16")
WIDE = recorded("softmax")


WIDTHS = sorted({timing.x for timing in NARROW.of("softmax")})


def test_pytorch_reaches_a_quarter_of_the_roof_where_a_row_in_registers_reaches_97_percent():
    assert share(NARROW, "torch", 8192) == pytest.approx(0.25, abs=0.01)
    assert share(NARROW, "softmax_v2", 8192) == pytest.approx(0.97, abs=0.005)


def test_the_finished_softmax_beats_pytorch_everywhere_and_four_times_at_8192_columns():
    assert WIDTHS[-1] == 262_144
    for speeds in (NARROW, WIDE):
        for width in WIDTHS:
            assert share(speeds, "softmax", width) > share(speeds, "torch", width)
            assert share(speeds, "softmax", width) >= 0.9
    ratio = NARROW.at("softmax", 8192).tb_s / NARROW.at("torch", 8192).tb_s
    assert ratio == pytest.approx(4, rel=0.02)


def test_one_row_per_program_is_within_5_percent_of_the_best_from_4096_to_16384_columns():
    for width in (4096, 8192, 16_384):
        at_width = [timing for timing in NARROW.timings if timing.x == width]
        best = max(timing.tb_s for timing in at_width if timing.series != "copy")
        assert 0.95 < NARROW.at("softmax_v2", width).tb_s / best < 1
    assert share(NARROW, "softmax_v2", 32_768) < 0.8
    assert max(timing.x for timing in NARROW.of("softmax_v2")) == 32_768


def test_softmax_lies_about_a_percent_above_the_copy_roof_up_to_16384_columns():
    for width in WIDTHS[: WIDTHS.index(16_384) + 1]:
        assert 1.004 < share(NARROW, "softmax", width) < 1.012


def test_the_rows_that_programs_share_reach_98_percent_where_the_online_version_reaches_63():
    assert share(WIDE, "softmax_v7", 65_536) > 0.98 and share(WIDE, "softmax", 65_536) > 0.98
    assert share(WIDE, "softmax_v3", 65_536) == pytest.approx(0.63, abs=0.005)


def test_persistent_programs_are_8_to_9_percent_slower_at_every_depth():
    depths = recorded("softmax_depths")
    for timing in depths.of("persistent"):
        slower = 1 - timing.tb_s / depths.at("a row a program", timing.x).tb_s
        assert 0.075 < slower < 0.095


def test_torch_compile_is_nearly_as_fast_on_narrow_rows_and_half_as_fast_on_wide_ones():
    for width in WIDTHS:
        ratio = NARROW.at("softmax", width).tb_s / NARROW.at("torch.compile", width).tb_s
        if width == 781:
            assert ratio > 1.3
        elif width <= 1024:
            assert 1 / ratio > 0.875
        else:
            assert 1.95 < ratio < 2.85
    assert NARROW.at("softmax_v3", 8192).tb_s > 2 * NARROW.at("torch.compile", 8192).tb_s


def test_torch_compile_takes_as_many_elements_per_second_in_either_dtype():
    for width in (2048, 4096, 8192, 16_384):
        halves, floats = (speeds.at("torch.compile", width).tb_s for speeds in (NARROW, WIDE))
        assert (floats / 8) / (halves / 4) == pytest.approx(1, abs=0.1)
    for width in (128, 256, 512, 781, 1024, 2048):
        assert share(WIDE, "torch", width) > 0.9


def test_a_trip_of_2_to_the_26_float32_takes_63_microseconds():
    trip_us = 4 * 2**26 / (4.25e12) * 1e6
    assert recorded_facts().memory_tb_s == pytest.approx(4.25, abs=0.01)
    assert [round(trips * trip_us) for trips in (1, 2, 8)] == [63, 126, 505]


def test_the_cache_holds_63_megabytes_and_one_row_per_multiprocessor_takes_35():
    facts = recorded_facts()
    assert round(facts.l2_bytes / 1e6) == 63 and facts.multiprocessors == 132
    assert [round(rows * 132 * 4 * 2**16 / 1e6) for rows in (1, 2)] == [35, 69]


@pytest.mark.parametrize("num_warps", [4, 8, 16, 32])
def test_no_number_of_warps_keeps_the_rows_being_worked_on_within_the_cache(lesson, num_warps):
    x = empty(64, 2**16)
    args = (x, x, 2**16, 2**16)
    stages = lower(lesson.online_kernel, *args, BLOCK_N=4096, num_warps=num_warps, target="sm_90")
    assert 132 * stages.resources.programs_per_sm * 4 * 2**16 > recorded_facts().l2_bytes


@pytest.mark.parametrize(("n", "loads"), [(1000, (8, 0)), (1008, (2, 2)), (1024, (2, 2))])
def test_loads_are_wide_where_16_divides_the_width(lesson, n, loads):
    assert loads_of(lesson.softmax_kernel, n) == loads


@triton.jit
def eights_kernel(x_ptr, out_ptr, n_cols, stride_xm, BLOCK_N: tl.constexpr):
    n_cols, stride_xm = n_cols // 8 * 8, stride_xm // 8 * 8
    row = tl.program_id(axis=0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride_xm + cols, mask=cols < n_cols, other=float("-inf"))
    power = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n_cols + cols, power / tl.sum(power, axis=0), mask=cols < n_cols)


def test_rounding_down_to_eights_makes_the_loads_of_1000_columns_wide():
    assert loads_of(eights_kernel, 1000) == (2, 2)


MOVES = "st.shared bar.sync ld.shared"
"""How a reduction joins what its warps have: in shared memory, around a barrier."""


def test_every_warp_reads_the_numbers_of_all_back_and_three_barriers_keep_them_apart(lesson):
    x = empty(512, 1000)
    s = lower(lesson.softmax_kernel, x, x, 1000, 1000, BLOCK_N=1024, target="sm_90", num_warps=4)
    moves = [line for line in s.ptx.splitlines() if re.search(r"(st|ld)\.shared|bar\.sync", line)]
    assert " ".join(move.split()[0].removesuffix(".b32") for move in moves) == (
        f"{MOVES} bar.sync {MOVES}"
    )
    assert not any("@" in move for move in moves)  # no warp is left out
    written, read = (
        [move.split("[")[1].split("]")[0] for move in moves if kind in move]
        for kind in ("st.shared", "ld.shared")
    )
    assert len(set(written)) == len(set(read)) == 1  # the sums go where the maxima were


def test_torch_compile_takes_three_exponentials_per_element_and_the_online_version_two(lesson):
    combine = inspect.getsource(triton_helpers.online_softmax_combine.fn)
    assert combine.count(" exp(") == 2
    first, second = observed().softmax_by_compile.split("for r0_offset")[1:]
    assert first.count("online_softmax_combine") == 1 and "exp(" not in first
    assert second.count("exp(") == 1
    x = empty(4, 2**16)
    counted = cost(lesson.online_kernel, (4,), x, x, 2**16, 2**16, BLOCK_N=4096, target="H200")
    assert sum(counted.special.values()) / x.numel() == pytest.approx(2, rel=1e-3)


@triton.jit
def exponential_kernel(x_ptr, EXACT: tl.constexpr):
    x_ptrs = x_ptr + tl.arange(0, 1024)
    x = tl.load(x_ptrs)
    y = libdevice.exp(x) if EXACT else tl.exp(x)
    tl.store(x_ptrs, y)


@pytest.mark.parametrize(("exact", "instructions"), [(False, 5), (True, 9)])
def test_the_exact_exponential_takes_nine_instructions_and_the_other_five(exact, instructions):
    s = lower(exponential_kernel, "*fp32:16", EXACT=exact, target="sm_90")
    sass = s.follow("y = libdevice.exp(x)", "sass").stages["sass"]
    assert len(sass) // 8 == instructions  # a thread has 8 elements, and constants are made once


def test_32768_columns_fit_the_registers_of_32_warps_and_65536_spill(lesson):
    for n, spills in ((32_768, False), (65_536, True)):
        x = empty(4, n)
        args = (x, x, n, n)
        stages = lower(lesson.softmax_kernel, *args, BLOCK_N=n, target="sm_90", num_warps=32)
        assert (stages.resources.spill_bytes > 0) == spills


def test_one_program_takes_a_multiprocessor_at_32768_columns_where_two_fit_at_16384():
    held = []
    for n, num_warps in ((16_384, 8), (32_768, 16)):
        x = torch.empty(4, n, dtype=torch.bfloat16, device="meta")
        options = {"BLOCK_N": n, "num_warps": num_warps, "target": "sm_90"}
        held.append(lower(softmax_kernel_v2, x, x, n, n, **options).resources.programs_per_sm)
    assert held == [2, 1]


def test_rows_are_multiplied_by_the_stride_in_64_bits(lesson):
    for kernel in (lesson.softmax_kernel, lesson.online_kernel):
        x = empty(4, 1024)
        ttir = lower(kernel, x, x, 1024, 1024, BLOCK_N=1024, target="sm_90").ttir
        products = [line for line in ttir.splitlines() if "arith.muli" in line]
        assert products and all(": i64" in line for line in products)


def test_row_42730_is_the_last_whose_offset_fits_32_bits():
    assert 42_730 * 50_257 < 2**31 <= 42_731 * 50_257
    assert round(2**31 / 50_257, 2) == 42_730.04
    assert round(65_536 * 50_257 / 1e9, 1) == 3.3 and round(2 * 65_536 * 50_257 / 1e9, 1) == 6.6


def test_the_derivatives_of_softmax_are_those_of_the_lesson():
    x = torch.randn(5, dtype=torch.float64)
    p = torch.softmax(x, 0)
    jacobian = torch.autograd.functional.jacobian(lambda x: torch.softmax(x, 0), x)
    torch.testing.assert_close(jacobian, torch.diag(p) - p[:, None] * p[None, :])


def test_two_parts_of_a_row_are_merged_as_the_last_question_says():
    assert round(2 + 4 * math.exp(1 - 3), 2) == 2.54


@triton.jit
def masked_kernel(x_ptr, out_ptr, n_cols, BLOCK_N: tl.constexpr):
    m = -float("inf")
    total = 0.0
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=float("-inf"))
        new_m = tl.maximum(m, tl.max(x, axis=0))
        safe = tl.where(new_m == float("-inf"), 0.0, new_m)
        total = total * tl.exp(m - safe) + tl.sum(tl.exp(x - safe), axis=0)
        m = new_m
    for start in range(0, n_cols, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        x = tl.load(x_ptr + cols, mask=cols < n_cols)
        tl.store(out_ptr + cols, tl.exp(x - m) / total, mask=cols < n_cols)


def test_a_row_that_begins_with_a_masked_tile_is_nan_until_0_is_subtracted(lesson):
    x = torch.tensor([[-math.inf] * 4 + [1.0, 2, 3, 4]], device=MODE.device)
    out = torch.empty_like(x)
    lesson.online_kernel[(1,)](x, out, 8, 8, BLOCK_N=4)
    assert out.isnan().all()
    masked_kernel[(1,)](x, out, 8, BLOCK_N=4)
    torch.testing.assert_close(out, torch.softmax(x, dim=1))


@triton.jit
def scaled_kernel(x_ptr, out_ptr, factor, n_cols, BLOCK_N: tl.constexpr):
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + cols, mask=cols < n_cols, other=float("-inf")) * factor
    power = tl.exp2(x - tl.max(x, axis=0))
    tl.store(out_ptr + cols, power / tl.sum(power, axis=0), mask=cols < n_cols)


def test_a_scale_below_zero_turns_lanes_without_an_element_into_infinities():
    x = torch.randn(5, device=MODE.device)
    out = torch.empty_like(x)
    for scale, right in ((0.5, True), (-0.5, False)):
        scaled_kernel[(1,)](x, out, scale * math.log2(math.e), 5, BLOCK_N=8)
        assert torch.allclose(out, torch.softmax(scale * x, dim=0), atol=1e-6) == right


def test_narrow_rows_are_diagnosed_as_small_programs_and_several_rows_per_program_are_not(lesson):
    x = torch.empty(2**17, 64, dtype=torch.bfloat16, device="meta")
    args = x, torch.empty_like(x)
    slow = diagnose(lesson.softmax_kernel, (2**17,), *args, 64, 64, BLOCK_N=64, target="H200")
    (finding,) = slow.findings
    assert finding.cause == "small programs"
    assert "131,072 programs" in finding.what
    assert "64 elements for 128 threads" in finding.why
    assert "several blocks or rows for each program" in finding.change
    sizes = 2**17, 64, 64, 16, 64
    assert diagnose(lesson.rows_kernel, (2**13,), *args, *sizes, target="H200").causes == []
