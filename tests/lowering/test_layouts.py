"""Which thread holds which element, for every kind of layout."""

import numpy as np
import pytest
import triton

from course import draw, lower
from course.errors import CourseError
from course.lowering.layouts import Layout, Layouts, Value
from tests.support import lower_kernels as kernels
from tests.support.lower_kernels import ADD, MATMUL, line_of


def test_a_blocked_layout_deals_elements_in_order(add):
    layout = add.layouts["x"]
    named = layout.kind, layout.name, layout.shape, layout.element
    assert named == ("blocked", "#blocked", (1024,), "f32")
    assert (layout.warps, layout.threads, layout.elements_per_thread) == (4, 32, 8)
    for element in (0, 3, 4, 130, 511, 512, 1023):
        (holder,) = layout.holders(element)
        assert holder.warp == element // 128 % 4
        assert holder.thread == element % 128 // 4
        assert holder.register == element % 4 + 4 * (element // 512)
    assert layout.held_by(0, 1) == [(4,), (5,), (6,), (7,), (516,), (517,), (518,), (519,)]
    loads = {line_of("    x = tl.load(x_ptr"), line_of("    y = tl.load(y_ptr")}
    assert loads <= set(layout.lines)
    assert "0:0:0 0:0:1 0:0:2 0:0:3 0:1:0" in str(layout)


# The layouts that the seed of this course lists, and the swizzled kinds of shared memory.
LAYOUTS = {
    "blocked": (kernels.add_kernel, (*ADD, 256), "sm_90"),
    "slice": (kernels.tile_sum_kernel, ("*fp32:16", "*fp32:16", 64), "sm_90"),
    "linear": (kernels.matmul_kernel, MATMUL, "gfx942"),
    "dot_op": (kernels.matmul_kernel, MATMUL, "sm_80"),
    "nvidia_mma": (kernels.matmul_kernel, MATMUL, "sm_80"),
    "swizzled_shared": (kernels.matmul_kernel, MATMUL, "sm_80"),
    "nvmma_shared": (kernels.matmul_kernel, MATMUL, "sm_90"),
    "amd_mfma": (kernels.matmul_kernel, MATMUL, "gfx942"),
    "amd_wmma": (kernels.matmul_kernel, MATMUL, "gfx1100"),
}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_every_kind_of_layout_covers_its_elements_and_is_consistent(kind):
    kernel, arguments, target = LAYOUTS[kind]
    layouts = lower(kernel, *arguments, target=target).layouts
    layout = next(layout for layout in layouts if layout.kind == kind)
    if layout.shared and triton.__version__.startswith("3.6"):
        assert "no view in this version of Triton" in str(layout)
        return
    if layout.shared:
        shape = layout.shape[-2:]
        offsets = [layout.offset(*index) for index in np.ndindex(*shape)]
        assert sorted(offsets) == list(range(len(offsets)))
        assert all(0 <= layout.bank(*index) < 32 for index in np.ndindex(4, 4))
        return
    for index in list(np.ndindex(*layout.shape))[:: max(1, int(np.prod(layout.shape)) // 200)]:
        for holder in layout.holders(*index):
            assert layout.held_by(holder.warp, holder.thread)[holder.register] == index


def tile_of_matmul(kind, target):
    """The layout of this kind that a tile of 64 x 64 has in a matmul."""
    layouts = lower(kernels.matmul_kernel, *MATMUL, target=target).layouts
    return next(layout for layout in layouts if (layout.kind, layout.shape) == (kind, (64, 64)))


def test_the_tile_of_a_tensor_core_spreads_a_row_over_four_threads():
    """Thread 4 * r + c holds columns 2c and 2c + 1 of row r (PTX ISA, mma.m16n8k16)."""
    layout = tile_of_matmul("nvidia_mma", "sm_80")
    assert [layout.holders(0, column)[0].thread for column in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [layout.holders(row, 0)[0].thread for row in range(8)] == [0, 4, 8, 12, 16, 20, 24, 28]


def test_unknown_names_and_elements_are_errors(add):
    no_name = "Nothing is called 'z' in the TTGIR: there is #blocked, offsets"
    with pytest.raises(CourseError, match=no_name):
        add.layouts["z"]
    with pytest.raises(CourseError, match=r"There is no element \(1024,\): the shape is \(1024,\)"):
        add.layouts["x"].holders(1024)
    no_thread = "There is no thread 32 of warp 0: there are 4 warps of 32 threads"
    with pytest.raises(CourseError, match=no_thread):
        add.layouts["x"].held_by(0, 32)
    with pytest.raises(CourseError, match="#blocked lies in registers"):
        add.layouts["x"].offset(0)


def test_the_result_of_a_library_call_has_its_name():
    assert layouts_of(kernels.tile_sum_kernel)["total"].kind == "slice"


def layouts_of(kernel):
    """The layouts of a kernel that reads a tile and writes one."""
    return lower(kernel, "*fp32:16", "*fp32:16", 64, target="sm_90").layouts


def test_a_helpers_variables_have_their_own_names():
    layouts = layouts_of(kernels.helped_kernel)
    assert [layout.shape for layout in layouts.all("mean")] == [(64,)]
    shapes = {layout.shape for layout in layouts if "result" in layout.names}
    assert shapes == {(64, 64), (64, 1)}


def test_a_call_gives_its_variable_the_result_of_the_function():
    layouts = layouts_of(kernels.noted_kernel)
    assert not any("result" in layout.names for layout in layouts)
    assert layouts["result"] is layouts["total"]
    assert layouts["result"].shape == (64,)


def test_the_results_of_a_loop_have_the_names_of_what_it_carries():
    """In Triton 3.9 the loop carries a and b, loaded for the next step, beside acc."""
    layouts = lower(kernels.matmul_kernel, *MATMUL, target="sm_80").layouts
    for layout in layouts:
        for value in layout.values:
            if value.operation == "scf.for":
                assert (value.name == "acc") == (layout.kind == "nvidia_mma"), layout
    assert layouts["acc"].kind == "nvidia_mma"


def test_a_layouts_name_gives_its_largest_block():
    """And not the last one, which may be the column that a softmax divides by."""

    def mma(shape, order):
        value = Value("arith.divf", "", (), 1, order)
        return Layout("#mma", "#ttg.nvidia_mma<{}>", shape, "f32", {}, (value,))

    column_last = Layouts([mma((64, 64), order=0), mma((64, 1), order=1)])
    assert column_last["#mma"].shape == (64, 64)


def shared(shape, offsets, block=()):
    bases = {"offset": offsets, "block": [*block]}
    return Layout("#shared", "#ttg.swizzled_shared<{}>", shape, "f32", bases, ())


def test_a_block_of_three_dimensions_in_shared_memory_has_three_indexes():
    offsets = [[0, 0, 1], [0, 0, 2], [0, 1, 0], [0, 2, 0], [1, 0, 0]]
    batch = shared((2, 4, 4), offsets)
    assert batch.offset(1, 2, 3) == 27
    assert "\n     4  5  6  7\n" in str(batch)
    assert "Bank of each element in the first row: 0, 1, 2, 3" in draw.layout(batch).alt
    with pytest.raises(CourseError, match=r"The shape is \(2, 4, 4\): an element has 3 numbers"):
        batch.offset(2, 3)
    copies = shared((3, 2, 4, 4), offsets)  # of one buffer, for a pipeline
    assert copies.offset(1, 2, 3) == 27
    assert str(shared((3, 4), [[1], [2]])).endswith("0 1 2 3")


def test_a_block_spread_over_the_memory_of_a_cluster_is_not_shown():
    spread = shared((2, 8), [[0, 1], [0, 2], [1, 0]], block=[[0, 4]])
    assert "? ? ? ?" in str(spread)
    for asked in (lambda: spread.offset(0, 4), lambda: draw.layout(spread)):
        with pytest.raises(CourseError, match="#shared is spread over a cluster of programs"):
            asked()


needs_shared_memory = pytest.mark.skipif(
    triton.__version__.startswith("3.6"),
    reason="needs Triton 3.7: 3.6 has no view of shared memory",
)


@needs_shared_memory
def test_a_part_of_a_buffer_lies_as_it_does_in_the_whole():
    layouts = lower(kernels.matmul_kernel, *MATMUL, target="sm_80").layouts
    swizzled = [layout for layout in layouts if layout.kind == "swizzled_shared"]
    whole = next(layout for layout in swizzled if layout.shape == (64, 64))
    parts = [
        layout
        for layout in swizzled
        if any(value.operation == "ttg.memdesc_subslice" for value in layout.values)
    ]
    for part in parts:
        for index in np.ndindex(*part.shape):
            assert part.offset(*index) == whole.offset(*index)
    assert bool(parts) != triton.__version__.startswith("3.7")


@needs_shared_memory
def test_a_block_that_lies_in_shared_memory_alone_is_found_there():
    """And not the numbers that its addresses are made of, which have its name too."""
    layouts = lower(kernels.matmul_kernel, *MATMUL, target="sm_90").layouts
    assert any(each.element == "i32" for each in layouts.all("b"))
    assert layouts["b"].kind == "nvmma_shared"


@needs_shared_memory
def test_the_barriers_of_a_b200_do_not_hide_the_layouts_of_its_tiles():
    tile = tile_of_matmul("nvmma_shared", "sm_100")
    # Rows of 128 bytes in pieces of 16, exchanged by the row: 128-byte swizzling (PTX ISA).
    assert [tile.offset(row, 0) for row in range(9)] == [row * 64 + row % 8 * 8 for row in range(9)]
