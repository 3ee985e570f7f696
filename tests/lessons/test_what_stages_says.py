"""What "What became of it" says of compiled kernels is so; what it leaves to readers works."""

import pytest

from course import cost, draw, lower
from course.benching.result import observation, recorded
from course.lowering import layout_view
from tests.support.lesson import Lesson, empty, script_of
from tools.record.sectors import Sectors

LESSON = Lesson("What became of it")
KERNELS = ("add", "row_sum", "slow_scale", "slow_shares", "slow_limit", "tile_sum")


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    """The lesson's kernels, by their names."""
    texts = LESSON.defining(*(f"{name}_kernel" for name in KERNELS))
    return script_of(tmp_path_factory.mktemp("lesson"), LESSON.imports, *texts)


def counts_of(kernel, *args, **options):
    return lower(kernel, *args, **options, target="sm_90").counts["ptx"]


def test_an_edited_stage_multiplies_where_it_added(lesson):
    x = empty(98432)
    stages = lower(lesson.add_kernel, x, x, x, 98432, BLOCK_SIZE=1024, target="sm_90")
    edited = stages.replace(ttgir=stages.ttgir.replace("arith.addf", "arith.mulf"))
    ptx = str(edited.follow("out_ptr + offsets, x + y", "ptx", most=40))
    assert (ptx.count("mul.f32"), ptx.count("add.f32")) == (8, 0)


@pytest.mark.parametrize(("num_warps", "shuffles"), [(1, 5), (2, 6), (4, 7), (8, 8)])
def test_a_row_sum_takes_a_shuffle_for_each_halving(lesson, num_warps, shuffles):
    x = empty(1024)
    counts = counts_of(lesson.row_sum_kernel, x, x, 1024, BLOCK_SIZE=1024, num_warps=num_warps)
    assert counts["shuffles"] == shuffles


def test_of_the_four_block_sizes_the_one_that_spills_is_slowest():
    sizes = (1024, 4096, 16_384, 32_768)
    timings = [each for each in recorded("vector_add_blocks").of("num_warps=4") if each.x in sizes]
    assert len(timings) == 4
    assert max(timings, key=lambda timing: timing.ms).x == 32_768


@pytest.mark.parametrize(
    ("n", "shift", "times"),
    [(98_432, 0, [1, 1, 1]), (98_433, 0, [4, 4, 4]), (98_432, 1, [4, 1, 1])],
)
def test_narrow_loads_of_neighbors_ask_for_each_sector_four_times(lesson, n, shift, times):
    x, y = empty(n + shift)[shift:], empty(n)
    counted = cost(lesson.add_kernel, (97,), x, y, y, n, BLOCK_SIZE=1024, target="H200")
    assert [round(access.times, 2) for access in counted.accesses] == times


def test_the_counters_of_a_gpu_find_four_times_the_sectors_where_16_does_not_divide_the_length():
    loaded = {row.case: row.measured_loaded for row in observation(Sectors, "sectors").compared}
    ratio = loaded["vector add, a length that 16 does not divide"] / loaded["vector add"]
    assert round(ratio, 2) == 4


@pytest.fixture
def labels(monkeypatch):
    """What is written into the boxes of the pictures that a test draws."""
    written = []
    monkeypatch.setattr(
        layout_view, "label", lambda axes, x, y, text, **style: written.append(text)
    )
    return written


def test_the_picture_of_the_vector_labels_threads_alone(lesson, labels):
    x = empty(98432)
    stages = lower(lesson.add_kernel, x, x, x, 98432, BLOCK_SIZE=1024, target="sm_90")
    draw.layout(stages, "x")
    assert "31" in labels and not [text for text in labels if ":" in text]


def test_the_picture_of_the_slice_labels_element_3_with_the_threads_of_row_3(lesson, labels):
    x = empty(16, 16)
    tile = lower(lesson.tile_sum_kernel, x, x, BLOCK=16, target="sm_90")
    draw.layout(next(each for each in tile.layouts if each.kind == "slice"))
    assert labels[3] == "0:24-31"
    assert {tile.layouts["x"].holders(3, column)[0].thread for column in range(16)} == {
        *range(24, 32)
    }


def all_wide(counts):
    return counts["global loads"] == counts["vectorized global loads"]


def test_the_first_slow_kernel_wastes_sectors_and_nothing_else_is_the_cause(lesson):
    x, scale = empty(256, 1024), empty(256)
    args = (x, scale, x, 256, 1024)
    stages = lower(lesson.slow_scale_kernel, *args, BLOCK_SIZE=1024, target="sm_90")
    assert stages.resources.spill_bytes == 0
    (conversion,) = [line for line in stages.ttgir.splitlines() if "ttg.convert_layout" in line]
    assert "xf32" in conversion  # the product, on its way to the store
    counted = cost(lesson.slow_scale_kernel, (256,), *args, BLOCK_SIZE=1024, target="H200")
    assert [access.times for access in counted.accesses] == [4, 8, 8]


def test_the_second_slow_kernel_spills_and_nothing_else_is_the_cause(lesson):
    x = empty(4096, 32768)
    args = (x, x, 32768)
    stages = lower(lesson.slow_shares_kernel, *args, BLOCK_SIZE=32768, target="sm_90")
    assert stages.resources.spill_bytes > 0 and all_wide(stages.counts["ptx"])
    counted = cost(lesson.slow_shares_kernel, (2,), *args, BLOCK_SIZE=32768, target="H200")
    assert {access.times for access in counted.accesses} == {1}


def test_the_third_slow_kernel_has_four_programs_and_nothing_else_is_the_cause(lesson):
    x, limit = empty(4, 2**20), empty(4)
    args = (x, limit, x, 2**20)
    stages = lower(lesson.slow_limit_kernel, *args, BLOCK_SIZE=1024, target="sm_90")
    assert stages.resources.spill_bytes == 0
    narrow = stages.counts["ptx"]["global loads"] - stages.counts["ptx"]["vectorized global loads"]
    assert narrow == 1  # of the limit, one number
    short = (empty(4, 2**14), limit, empty(4, 2**14), 2**14)
    counted = cost(lesson.slow_limit_kernel, (4,), *short, BLOCK_SIZE=1024, target="H200")
    assert {access.times for access in counted.accesses} == {1}


def test_a_promise_about_a_parameter_leaves_no_trace(lesson, tmp_path):
    script = script_of(tmp_path, PROMISES)
    x = empty(4, 1004)
    args = {"n_cols": 1000, "BLOCK_SIZE": 1024}
    for kernel, wide in ((script.parameter_kernel, False), (script.product_kernel, True)):
        counts = counts_of(kernel, x, x, 1004, **args)
        assert all_wide(counts) == wide


PROMISES = """\
import triton
import triton.language as tl


@triton.jit
def parameter_kernel(x_ptr, out_ptr, stride, n_cols: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    stride = tl.multiple_of(stride, 4)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols)
    tl.store(out_ptr + row * n_cols + cols, x, mask=cols < n_cols)


@triton.jit
def product_kernel(x_ptr, out_ptr, stride, n_cols: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_SIZE)
    start = tl.multiple_of(row * stride, 4)
    x = tl.load(x_ptr + start + cols, mask=cols < n_cols)
    tl.store(out_ptr + row * n_cols + cols, x, mask=cols < n_cols)
"""
