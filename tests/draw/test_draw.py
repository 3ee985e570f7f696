"""Pictures: a PNG with a text that says the same, the same bytes each time."""

import io
import itertools
import math
import re
from pathlib import Path

import pytest
import torch
from matplotlib.text import Text
from PIL import Image

from course import benching, draw, lower, recorded
from course.display.colors import BANKS, LIGHT, PALETTE, PROGRAMS, WARPS, WORK, ink, rgb
from course.display.picture import Picture
from course.draw.room_map import Buffer, rows_of, shared_memory
from course.draw.series_style import legend_text, style_of
from course.draw.specialized_timeline import BUFFERS, CORES, DOT, _handed_over, _simulated
from course.errors import CourseError
from course.gpus.measured import recorded_facts
from course.lowering.bank_conflicts import access
from course.lowering.layouts import Layout
from tests.support import lower_kernels as kernels

# A picture, and a part of what its text must say.
PICTURES = {
    "programs": (
        lambda: draw.programs(10, 4),
        "3 programs, program i owning elements i * 4 to i * 4 + 3",
    ),
    "programs that fit": (lambda: draw.programs(8, 4), "the last one has 0 masked lanes"),
    "one program": (lambda: draw.programs(1, 64), "63 masked lanes"),
    "tiles": (
        lambda: draw.tiles(5, 6, 4, 4),
        "a grid of 2 x 2 programs. The element in row r and column c has offset r * 6 + c * 1. 34",
    ),
    "transposed tiles": (lambda: draw.tiles(3, 4, 2, 2, 1, 3), "has offset r * 1 + c * 3"),
    "the walk along K": (lambda: draw.walk(4, step=1), "c holds a0 @ b0 + a1 @ b1"),
    "where tiles live": (
        lambda: draw.residence(128, 64, 128, warps=4),
        "q 32 KB, k 16 KB, v 16 KB. In registers per thread: S 64, P 32, O 128",
    ),
    "a packed group": (
        lambda: draw.packing(2, 4),
        "8 tiles of 16 rows with one row used in each, packed 2 tiles",
    ),
    "merged parts": (
        lambda: draw.merge([[2, 1], [5, 3]], [[10, 20], [30, 40]]),
        "Merged: (0.060 x 12.689 + 1.000 x 31.192) / 1.060 = 30.145",
    ),
    "attention": (
        lambda: draw.attention(16, 32, 4, 4, program=2),
        "4 x 8. Tiles skipped: 0, computed whole: 32, computed with a mask: 0. Program 2 keeps "
        "queries 8 to 11, and its loop takes tiles 0 to 7 of the keys.",
    ),
    "causal attention": (
        lambda: draw.attention(32, 32, 8, 4, causal=True, program=2),
        "Query m sees the keys up to m. Tiles skipped: 12, computed whole: 12, computed with a "
        "mask: 8. Program 2 keeps queries 16 to 23, and its loop takes tiles 0 to 5 of the keys; "
        "with a mask: 4, 5.",
    ),
    "more keys than queries": (
        lambda: draw.attention(10, 22, 4, 4, causal=True),
        "Query m sees the keys up to m + 12. Tiles skipped: 3",
    ),
    "queries with no key": (
        lambda: draw.attention(22, 10, 4, 4, causal=True, program=1),
        "sees the keys up to m - 12. Tiles skipped: 12, computed whole: 3, computed with a mask: 3."
        " Program 1 keeps queries 4 to 7, and its loop takes no tile of keys.",
    ),
    "a sliding window": (
        lambda: draw.attention(64, 64, 8, 4, causal=True, window=20, program=5),
        "Query m sees the last 20 of the keys up to m. Tiles skipped: 81",
    ),
    "one score": (
        lambda: draw.attention(1, 1, 1, 1, causal=True, program=0),
        "its loop takes tile 0 of the keys.",
    ),
    "the most scores": (lambda: draw.attention(256, 256, 16, 16, causal=True), "16 x 16. Query m"),
    "a race": (lambda: draw.race(), "memory holds 6 where 7 was due. One addition is lost."),
    "no race": (lambda: draw.race(atomic=True), "turns 6 into 7. Both additions are there."),
    "broadcasting": (
        lambda: draw.broadcast([0, 1, 2, 3], [0, 1, 2], stride=6),
        "the shape [4, 3]: row i, column j holds the sum of the column's element i and the row's "
        "element j. Its first row is 0, 1, 2, its last 18, 19, 20.",
    ),
    "from the grid to a thread": (
        lambda: draw.hierarchy(1024, 4, program=1, warp=2, thread=5),
        "Thread 5 of warp 2 holds 1,300, 1,301, 1,302, 1,303, 1,812, 1,813, 1,814, 1,815: 8 in 8 "
        "registers.",
    ),
    "many registers": (lambda: draw.hierarchy(1024, 1, warp=0), "8 times over: warp 0 begins"),
    "a register": (lambda: draw.hierarchy(256, 8, warp=7), "warp 7 begins at 480. In a warp, 32"),
    "a new maximum": (
        lambda: draw.rescale([0, 1], [[4], [8]], block=1),
        "after tile 0 m = 0, total = 1.000, acc = 4.000; after tile 1 m = 1, alpha = 0.368, "
        "total = 1.368, acc = 9.472. Divided at the end: 6.924.",
    ),
    "specialized warps": (
        lambda: draw.specialized(consumers=2),
        "the tensor cores idle while all compute their softmax",
    ),
    "one consumer": (lambda: draw.specialized(1), "computes the softmax the tensor cores idle"),
    "a ladder under its roofs": (
        lambda: draw.ladder(recorded("matmul"), {"matmul_v1": 32, "matmul_v3": 85.3}, x=4096),
        "matmul_v1: 32 operations per byte, so at most",
    ),
    "queue": (lambda: draw.queue(20, 4), "20 programs on 4 multiprocessors"),
    "turns": (lambda: draw.turns(4), "Some warp computes in 67% of the time."),
    "turns without a gap": (lambda: draw.turns(8), "Some warp computes in 100% of the time."),
    "one queue": (lambda: draw.queue(1, 1), "1 programs on 1 multiprocessors"),
    "a running maximum": (
        lambda: draw.online([1, 2.5, -3, 4], 2),
        "4 numbers in tiles of 2: after tile 0 m = 2.5",
    ),
    "machine": (lambda: draw.machine(recorded_facts()), "132 multiprocessors"),
    "speeds": (lambda: draw.speeds(recorded("vector_add")), "the copy roof is"),
    "some speeds": (lambda: draw.speeds(recorded("vector_add"), series=["add"]), "add at most"),
    "teraflops": (
        lambda: draw.speeds(recorded("matmul"), ["matmul", "torch"], xs=[4096, 8192]),
        "TFLOP/s at N of float16",
    ),
    "row after row": (
        lambda: draw.order(8, 6, programs=12),
        "they read 2 rows of tiles of a and 6 columns of b",
    ),
    "in groups": (
        lambda: draw.order(8, 6, 4, 12),
        "they read 4 rows of tiles of a and 3 columns of b",
    ),
    "a low last group": (
        lambda: draw.order(5, 2, 4, 10),
        "they read 5 rows of tiles of a and 2 columns of b",
    ),
}
IMAGE = (
    r'<div style="overflow-x:auto"><img src="data:image/png;base64,[\w+/=]+" alt="[^"<>]+" '
    r'width="\d+" style="max-width:100%;min-width:\d+px"></div>'
)
RECORDED = sorted(file.stem for file in Path(benching.__file__).parent.glob("recorded/*.json"))
LAB = 920
"""CSS pixels across a cell's output in JupyterLab on a laptop."""
SMALLEST = 9
"""CSS pixels of letters that can be read there."""


@pytest.fixture
def letters(monkeypatch):
    """The height in CSS pixels of the smallest letters that were drawn, when it is called."""
    drawn, of = [], Picture.of

    def noting(figure, *args, **kwargs):
        texts = (text for text in figure.findobj(Text) if text.get_text().strip())
        drawn.extend(text.get_fontsize() * 100 / 72 for text in texts)
        return of(figure, *args, **kwargs)

    monkeypatch.setattr(Picture, "of", noting)
    return lambda: min(drawn)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_a_png_with_a_text_that_says_the_same_and_the_same_bytes_each_time(
    name, letters
):
    make, words = PICTURES[name]
    picture = make()
    assert picture.png == make().png
    bundle = picture._repr_mimebundle_()
    image = Image.open(io.BytesIO(picture.png))
    assert image.size[0] == 2 * picture.width
    assert words in picture.alt == repr(picture) == bundle["text/plain"]
    assert re.fullmatch(IMAGE, bundle["text/html"])
    assert len(picture.png) < 60_000
    assert picture.width <= LAB
    assert letters() >= SMALLEST


@pytest.mark.parametrize("colors", [PROGRAMS, WARPS, BANKS])
def test_no_two_colors_of_one_kind_are_alike(colors):
    apart = (
        sum(abs(one - other) for one, other in zip(rgb(a), rgb(b), strict=True))
        for a, b in itertools.combinations(colors, 2)
    )
    assert min(apart) > 45


@pytest.mark.parametrize("color", [*PALETTE, *PROGRAMS, *WARPS, *BANKS, *WORK.values(), LIGHT])
def test_a_text_stands_out_from_the_color_it_is_written_on(color):
    def luminance(parts):
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    paper = luminance([part / 255 for part in rgb(color)])
    contrast = (paper + 0.05) / 0.05 if ink(color) == "black" else 1.05 / (paper + 0.05)
    assert contrast >= 4.5  # what the W3C asks of a text


def test_speeds_can_be_shown_as_times_those_of_another():
    result = recorded("matmul")
    shown = draw.speeds(result, ["matmul_v1", "torch"], relative_to="torch")
    ratios = [
        result.at("matmul_v1", timing.x).speed / timing.speed for timing in result.of("torch")
    ]
    assert shown.alt.startswith("Speed in times that of torch over N of float16 (recorded on")
    assert shown.alt.endswith(f"matmul_v1 {min(ratios):.2f} to {max(ratios):.2f}.")


def test_speeds_are_logarithmic_where_a_line_would_lie_on_zero():
    result, both = recorded("vector_add"), ["add", "add_v1"]
    assert draw.speeds(result, both).png == draw.speeds(result, both, log=True).png
    assert draw.speeds(result, both).png != draw.speeds(result, both, log=False).png
    assert draw.speeds(result, ["add"]).png == draw.speeds(result, ["add"], log=False).png


def test_a_series_looks_the_same_in_every_plot_and_like_no_other_beside_it():
    for name in RECORDED:
        result = recorded(name)
        styles = {series: style_of(series, rank) for rank, series in enumerate(result.series)}
        assert all(style_of(series, 3) == style for series, style in styles.items())
        looks = {(style.color, style.marker, style.dash) for style in styles.values()}
        assert len(looks) == len(styles)


def test_a_legend_has_words_for_a_version_and_those_that_are_asked_for():
    assert legend_text("matmul_v2", style_of("matmul_v2", 1)) == "matmul_v2: grouped"
    assert legend_text("torch", style_of("torch", 1)) == "torch"
    result = recorded("matmul")
    named = draw.speeds(result, {"matmul_v2": "in groups", "torch": "PyTorch"})
    assert named.png != draw.speeds(result, ["matmul_v2", "torch"]).png
    assert named.alt == draw.speeds(result, ["matmul_v2", "torch"]).alt


def test_recorded_speeds_are_labelled_so():
    assert "(recorded on NVIDIA H200" in draw.speeds(recorded("vector_add")).alt


def test_alternative_text_is_escaped():
    bundle = Picture(b"", '<script>"&', 10)._repr_mimebundle_()
    assert "&lt;script&gt;&quot;&amp;" in bundle["text/html"]


def test_a_picture_can_be_saved(tmp_path):
    draw.programs(4, 2).save(tmp_path / "picture.png")
    assert Image.open(tmp_path / "picture.png").format == "PNG"


@pytest.mark.parametrize(
    ("queries", "keys", "window"), [(37, 37, None), (20, 46, None), (45, 20, None), (40, 52, 13)]
)
def test_the_tiles_of_attention_are_those_of_its_mask(queries, keys, window):
    """Tile by tile, against a mask written out."""
    diagonal = keys - queries
    seen = torch.ones(queries, keys, dtype=torch.bool).tril(diagonal)
    if window:
        seen &= ~torch.ones(queries, keys, dtype=torch.bool).tril(diagonal - window)
    tiles = [part for rows in seen.split(8) for part in rows.split(4, dim=1)]
    whole = [bool(tile.all()) and tile.shape[1] == 4 for tile in tiles]
    skipped = [not tile.any() for tile in tiles]
    masked = len(tiles) - sum(whole) - sum(skipped)
    assert len(tiles) == -(-queries // 8) * -(-keys // 4)
    counts = f"{sum(skipped)}, computed whole: {sum(whole)}, computed with a mask: {masked}."
    picture = draw.attention(queries, keys, 8, 4, causal=True, window=window)
    assert f"Tiles skipped: {counts}" in picture.alt


@pytest.mark.parametrize("per_byte", [14, 16, 18, 20, 25, 32])
def test_no_level_roof_runs_through_the_name_of_the_memorys_roof(per_byte, drawn_figure):
    draw.roofline(ladder=recorded("matmul"), per_byte={"matmul_v1": per_byte}, x=4096)
    axes = drawn_figure().axes[0]
    name = next(text for text in axes.texts if text.get_text().startswith("memory:"))
    extent = name.get_window_extent()
    level = [line for line in axes.lines if len(set(line.get_ydata())) == 1]
    heights = [axes.transData.transform((1, line.get_ydata()[0]))[1] for line in level]
    assert heights
    assert not any(extent.y0 < height < extent.y1 for height in heights)


ADD = ("*fp32:16", "*fp32:16", "*fp32:16", "i32:16", 1024)
MATMUL = ("*fp16:16", "*fp16:16", "*fp32:16", 256, 64)


def test_a_layout_says_what_its_picture_shows(letters):
    made = lower(kernels.add_kernel, *ADD, target="sm_90")
    shown = draw.layout(made, "x")
    assert "4 warps of 32 threads; each thread holds 8 elements" in shown.alt
    assert "8 rows of 128 elements" in shown.alt
    assert shown.png == draw.layout(made.layouts["x"]).png
    assert (
        "holds, register by register: 4, 5, 6, 7, 516, 517, 518, 519."
        in draw.layout(made, "x", thread=(0, 1)).alt
    )
    assert letters() >= SMALLEST and shown.width <= LAB


def test_rows_of_which_a_thread_holds_nothing_are_drawn_as_one():
    """Along a row, thread 3 holds row 3 of 32: rows 0 to 2 and 4 to 31 are one each."""
    row, column = (draw.layout(each, thread=(0, 3)) for each in (A_COLUMN, A_ROW))
    heights = [Image.open(io.BytesIO(each.png)).height for each in (row, column)]
    assert heights[0] < heights[1] / 4
    assert "(3, 31)" in row.alt and "(31, 3)" in column.alt


def test_layouts_of_tensor_cores_and_shared_memory_are_drawn():
    made = lower(kernels.matmul_kernel, *MATMUL, target="sm_80")
    assert "4 warps of 32 threads; each thread holds 32 elements" in draw.layout(made, "acc").alt
    shared = next(each for each in made.layouts if each.shared)
    assert "Bank of each element in the first row: 0, 0, 1, 1, 2, 2" in draw.layout(shared).alt
    summed = lower(kernels.tile_sum_kernel, "*fp32:16", "*fp32:16", 64, target="sm_90")
    sliced = next(each for each in summed.layouts if each.kind == "slice" and each.element == "f32")
    assert "every element is held" in draw.layout(sliced).alt


# On Ampere a pipeline of three stages has two buffers, one fewer than stages.
@pytest.mark.parametrize(("num_stages", "copies"), [(1, 1), (3, 2)])
def test_a_map_shows_all_of_shared_memory_as_the_compiler_has_laid_it_out(
    num_stages, copies, letters
):
    lowered = lower(kernels.matmul_kernel, *MATMUL, target="sm_80", num_stages=num_stages)
    buffers, scratch = shared_memory(lowered)
    assert [(each.name, each.copies, each.each) for each in buffers] == [
        (name, copies, 64 * 64 * 2) for name in "ab"
    ]
    assert max(each.end for each in buffers) == lowered.resources.shared_bytes >= max(scratch)
    shown = draw.room(lowered, "acc")
    used = lowered.resources.registers  # 64 x 64 float32 over 128 threads are 32 for each
    assert f"{used} of 255 registers per thread" in shown.alt
    assert f"Registers: acc 32, all else {used - 32}. In shared memory: a " in shown.alt
    assert letters() >= SMALLEST and shown.width <= LAB


def test_buffers_that_take_one_place_in_turn_have_a_row_each():
    places = [Buffer("q", 0, 1, 64), Buffer("k", 0, 2, 32), Buffer("v", 64, 1, 8)]
    assert rows_of(places) == [0, 1, 0]
    assert rows_of([]) == []


def test_a_map_of_what_uses_no_shared_memory():
    shown = draw.room(lower(kernels.add_kernel, *ADD, target="sm_90"), "x")
    assert "; 0 bytes of 227 KiB of shared memory per program" in shown.alt
    assert "Registers: x 8, all else " in shown.alt
    with pytest.raises(CourseError, match="shows up to 4 different values"):
        draw.room(lower(kernels.add_kernel, *ADD, target="sm_90"), "x", "x")


def test_a_value_of_the_ttgir_may_be_named():
    made = lower(kernels.matmul_kernel, *MATMUL, target="sm_80")
    load = next(line.split()[0] for line in made.ttgir.splitlines() if "ttg.local_load" in line)
    assert "#ttg.dot_op" in draw.layout(made, load).alt
    with pytest.raises(CourseError, match="No value with a layout is called %nothing"):
        draw.layout(made, "%nothing")


def test_of_two_values_of_one_kind_of_layout_each_has_its_own_picture():
    made = lower(kernels.tile_sum_kernel, "*fp32:16", "*fp32:16", 64, target="sm_90")
    ranges = re.findall(r"(%\w+) = tt\.make_range .*#ttg\.(slice<\{dim = \d)", made.ttgir)
    assert {layout[-1] for _, layout in ranges} == {"0", "1"}
    for value, layout in ranges:
        assert layout in draw.layout(made, value).alt


def test_a_reductions_type_stands_where_its_region_ends():
    made = lower(kernels.tile_sum_kernel, "*fp32:16", "*fp32:16", 64, target="sm_90")
    (value,) = re.findall(r'(%\w+) = "tt\.reduce"', made.ttgir)
    assert "slice<{dim = 1" in draw.layout(made, value).alt


@pytest.mark.parametrize(
    ("of", "says"),
    [
        ("z", "Nothing is called 'z'"),
        (None, "needs to know of what"),
        (1, "No value with a layout comes from line 1"),
    ],
)
def test_a_layout_that_is_not_there_is_a_sentence(of, says):
    with pytest.raises(CourseError, match=says):
        draw.layout(lower(kernels.add_kernel, *ADD, target="sm_90"), of)


@pytest.mark.parametrize(
    ("num_stages", "says"),
    [
        (1, "Nothing is pipelined: load a, load b, dot acc of one iteration end before"),
        (2, "2 iterations are under way at a time. In step i of the loop, load a on iteration i"),
        (3, "dot acc works on iteration i - 2."),
    ],
)
def test_a_pipeline_says_which_iteration_each_load_serves(num_stages, says, letters):
    made = lower(kernels.matmul_kernel, *MATMUL, target="sm_80", num_stages=num_stages)
    shown = draw.pipeline(made)
    assert says in shown.alt
    assert letters() >= SMALLEST and shown.width <= LAB


@pytest.mark.parametrize(("block_size", "num_warps"), [(1024, 4), (256, 8), (128, 2), (1024, 1)])
def test_the_hierarchy_deals_a_block_out_as_the_compiler_does(block_size, num_warps):
    args = (*ADD[:-1], block_size)
    layout = lower(kernels.add_kernel, *args, num_warps=num_warps, target="sm_90").layouts["x"]
    for warp, thread in itertools.product({0, num_warps - 1}, (0, 7, 31)):
        held = [f"{index:,}" for (index,) in layout.held_by(warp, thread)]
        listed = ", ".join([*held[:8], "…"] if len(held) > 8 else held)
        shown = draw.hierarchy(block_size, num_warps, program=0, warp=warp, thread=thread)
        assert f"Thread {thread} of warp {warp} holds {listed}: {len(held)} in" in shown.alt


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: draw.hierarchy(1000), "a power of two, for num_warps=4; block_size is 1,000."),
        (lambda: draw.hierarchy(64, 4), "shows blocks of 128 to 4,096 elements"),
        (lambda: draw.hierarchy(1024, 3), "shows 1, 2, 4 or 8 warps; num_warps is 3"),
        (lambda: draw.hierarchy(1024, 4, warp=4), "no warp 4: there are 4, counted from 0"),
        (lambda: draw.hierarchy(1024, 4, thread=32), "no thread 32: there are 32, counted from 0"),
        (lambda: draw.hierarchy(1024, 4, program=4), "no program 4: there are 4, counted from 0"),
        (lambda: draw.hierarchy("1024"), "block_size is '1024', and must be a whole"),
        (lambda: draw.broadcast(3, [1]), "rows is 3, and must be a list"),
        (lambda: draw.online(3, 2), "values is 3, and must be a list"),
        (lambda: draw.merge([[1]], [2]), "values[0] is 2, and must be a list"),
        (lambda: draw.rescale("x", [[1]], 1), "scores is 'x', and must be a list"),
        (lambda: draw.broadcast(iter([1]), [0]), "rows is a list_iterator, and must be a list"),
        (lambda: draw.online([None], 1), "values must hold finite numbers"),
        (lambda: draw.rescale([1], [["x"]], 1), "values[0] must hold finite numbers"),
        (lambda: draw.merge([[]], [[]]), "scores[0] must hold finite numbers, and some"),
        (lambda: draw.merge([[1], [-math.inf]], [[1], [2]]), "scores[1] must hold finite numbers"),
        (lambda: draw.ladder(recorded("matmul"), [1]), "operations per byte by the names of vers"),
        (lambda: draw.ladder(recorded("matmul"), {"torch": "a"}), "per_byte must hold finite num"),
        (lambda: draw.roofline(ladder=5), "what `bench` or `recorded` returned"),
        (lambda: draw.queue(lower), "n_programs is a function, and must be a whole number of 1"),
        (lambda: draw.broadcast([], [1]), "takes 1 to 8 whole numbers as rows"),
        (lambda: draw.broadcast([1], [0.5]), "takes 1 to 8 whole numbers as cols"),
        (lambda: draw.rescale([1, 2], [[1]], 1), "for each a value of 1 to 3 numbers"),
        (lambda: draw.rescale([1], [[float("inf")]], 1), "values[0] must hold finite numbers"),
        (lambda: draw.rescale([1] * 8, [[1]] * 8, 1), "up to 4 tiles: block is 1 for 8 keys"),
        (lambda: draw.rescale([1], [[1]], 1, alpha=2), "takes a name as alpha; it is 2"),
        (lambda: draw.specialized(4), "consumers is 4, and must be a whole number of 1 to 3"),
        (lambda: draw.ladder(recorded("vector_add"), {"add": 1}), "was timed by its bytes"),
        (lambda: draw.ladder(recorded("matmul"), {"add": 1}), "matmul has no 'add' at"),
        (lambda: draw.ladder(recorded("matmul"), {}), "needs versions to show"),
        (lambda: draw.ladder(recorded("matmul"), {"torch": 0}), "torch computes 0 operations"),
        (lambda: draw.order(17, 2), "tiles_m is 17, and must be a whole number of 1 to 16"),
        (lambda: draw.order(2, 2.5), "tiles_n is 2.5"),
        (lambda: draw.order(2, "2"), "tiles_n is '2'"),
        (lambda: draw.order(2, 2, 0), "group_m is 0, and must be a whole number of 1 or more"),
        (lambda: draw.order(2, 2, None), "group_m is None"),
        (lambda: draw.order(2, 2, 1, 5), "programs is 5, and must be a whole number of 1 to 4"),
        (lambda: draw.programs(0, 4), "n_elements is 0, and must be a whole number of 1 to 64"),
        (lambda: draw.programs(10, 0), "block_size is 0, and must be a whole number of 1 or more"),
        (lambda: draw.programs(65, 4), "n_elements is 65"),
        (lambda: draw.queue(0), "n_programs is 0, and must be a whole number of 1 to 64"),
        (lambda: draw.turns(9), "warps is 9, and must be a whole number of 1 to 8"),
        (lambda: draw.queue(4, 9), "multiprocessors is 9, and must be a whole number of 1 to 8"),
        (lambda: draw.tiles(17, 2, 2, 2), "n_rows is 17, and must be a whole number of 1 to 16"),
        (lambda: draw.tiles(2, 2, 0, 2), "block_m is 0"),
        (lambda: draw.attention(257, 16, 64, 16), "n_queries is 257, and must be a whole"),
        (lambda: draw.attention(16, 16, 4, 4, window=4), "takes a window with causal=True alone"),
        (lambda: draw.attention(16, 17, 4, 1), "up to 16 x 16 tiles: take larger blocks"),
        (lambda: draw.attention(16, 16, 4, 4, True, 0), "window is 0, and must be a whole"),
        (lambda: draw.attention(16, 16, 0, 4), "block_m is 0, and must be a whole number of 1"),
        (lambda: draw.attention(16, 16, 4, 4, program="2"), "no program '2': there are 4"),
        (lambda: draw.attention(True, 16, 4, 4), "n_queries is True, and must be a whole"),
        (lambda: draw.attention(16, 16, 4, 4, causal="no"), "must be True or False; it is 'no'"),
        (lambda: draw.attention(16, 16, 4, 4, program=4),
         "There is no program 4: there are 4, counted from 0"),
        (lambda: draw.speeds(recorded("matmul"), ["torch"], xs=[3, 1024]),
         "matmul has no N of float16 3: there is 1,024, 2,048"),
        (lambda: draw.speeds(recorded("matmul"), xs=1024), "draw.speeds takes a list of sizes"),
        (lambda: draw.speeds(recorded("matmul"), "matmul"), "draw.speeds takes a list of names"),
        (lambda: draw.speeds(recorded("matmul"), relative_to="nope"),
         "There is no series 'nope' in matmul"),
        (lambda: draw.speeds(recorded("vector_add"), series=["nope"]),
         "There is no series 'nope' in vector_add: there is add, "),
        (lambda: draw.room(3), "draw.room takes a kernel from lower"),
        (lambda: draw.pipeline(3), "draw.pipeline takes a kernel from lower"),
        (lambda: draw.layout("x", "z"), "draw.layout takes a kernel from lower"),
        (lambda: draw.layout(PLAIN, thread=(0, 1.5)), "draw.layout takes thread="),
        (lambda: draw.slide(lambda block: draw.programs(10, block)),
         "takes one setting with its values"),
        (lambda: draw.slide(lambda block: block, block=[2]),
         "needs a function that returns a picture"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_a_sentence(call, words):
    with pytest.raises(CourseError, match=re.escape(words)):
        call()


def test_the_factor_has_the_name_that_the_kernel_has_for_it():
    shown = draw.rescale([0, 1], [[4], [8]], block=1, alpha="rescale")
    assert "rescale = 0.368" in shown.alt and "alpha" not in shown.alt


def test_what_is_gathered_tile_by_tile_is_the_softmax_times_the_values():
    scores, values = torch.tensor([2.0, 1, 0, 3, 5, 1]), torch.rand(6, 2)
    shown = draw.rescale(scores.tolist(), values.tolist(), block=2).alt
    right = ", ".join(f"{number:.3f}" for number in torch.softmax(scores, 0) @ values)
    assert shown.endswith(f"Divided at the end: {right}.")


@pytest.mark.parametrize(("consumers", "tiles"), [(1, 5), (2, 5), (3, 8)])
def test_specialized_warps_share_tensor_cores_and_buffers(consumers, tiles):
    bars = _simulated(consumers, tiles)
    for row in {bar.row for bar in bars}:
        of_row = sorted((bar.start, bar.end) for bar in bars if bar.row == row)
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(of_row))
    loaded = {(bar.tile, bar.what): bar for bar in bars if bar.row == "producer"}
    assert len(loaded) == 2 * tiles
    for number in range(consumers):
        work = [bar for bar in bars if bar.row == f"consumer {number}"]
        assert [bar.kind for bar in work] == ["dot", "softmax", "dot"] * tiles
        for place, bar in enumerate(work):
            if bar.kind == "dot":
                what = "kv"[place % 3 // 2]
                assert bar.start >= loaded[bar.tile, what].end
                if (bar.tile + BUFFERS, what) in loaded:
                    assert loaded[bar.tile + BUFFERS, what].start >= bar.end
    busy = sum(bar.end - bar.start for bar in bars if bar.row == CORES)
    assert busy == pytest.approx(2 * consumers * tiles * DOT)


def test_nothing_parts_two_consumers_that_wait_for_the_same_tile():
    starts = [
        [bar.start for bar in _simulated(2, 5) if bar.row == f"consumer {number}"]
        for number in range(2)
    ]
    assert starts[0] == starts[1]
    cores = [bar for bar in _simulated(2, 5) if bar.row == CORES]
    assert len(cores) == 10 and {bar.what for bar in cores} == {"0 and 1"}


def test_a_buffer_is_drawn_as_handed_over_and_given_back():
    bars = _simulated(2, 5)
    first, *_, again = [bar for bar in bars if bar.what == "k" and bar.tile in (0, 2)]
    given_back = max(bar.end for bar in bars if bar.kind == "dot" and bar.end <= again.start)
    assert _handed_over(bars) == [
        (first.end, "k0 full", True), (given_back, "k0 empty", False),
    ]  # fmt: skip
    assert _handed_over(_simulated(2, 2)) == [(first.end, "k0 full", True)]


def test_what_has_no_pipeline_is_a_sentence():
    with pytest.raises(CourseError, match="has no loop that loads or multiplies"):
        draw.pipeline(lower(kernels.add_kernel, *ADD, target="sm_90"))
    with pytest.raises(CourseError, match="There is no loop 1: the kernel has 1"):
        draw.pipeline(lower(kernels.matmul_kernel, *MATMUL, target="sm_90"), loop=1)


def hand_made(kind, bases, element="f32"):
    return Layout("", f"#ttg.{kind}<{{}}>", (32, 32), element, bases, ())


ROW, COLUMN = [[0, 2**i] for i in range(5)], [[2**i, 0] for i in range(5)]
DIAGONAL = [[2**i, 2**i] for i in range(5)]
PLAIN = hand_made("swizzled_shared", {"offset": ROW + COLUMN, "block": []})
# As 8 elements further in each row: rows of one column lie in different banks.
SWIZZLED = hand_made("swizzled_shared", {"offset": ROW + DIAGONAL, "block": []})
OTHERS = {"warp": [], "block": []}
A_ROW = hand_made("blocked", {"register": COLUMN, "lane": ROW, **OTHERS})
A_COLUMN = hand_made("blocked", {"register": ROW, "lane": COLUMN, **OTHERS})


@pytest.mark.parametrize(
    ("shared", "registers", "bytes_per_thread", "cycles"),
    [
        (PLAIN, A_ROW, 4, 1),
        (PLAIN, A_COLUMN, 16, 8),
        (SWIZZLED, A_ROW, 4, 1),
        (SWIZZLED, A_COLUMN, 4, 1),
    ],
)
def test_bank_conflicts_are_counted(shared, registers, bytes_per_thread, cycles):
    """Along a column of 32 x 32 float32, eight threads ask four banks for 16 bytes each."""
    of_a_warp = access(shared, registers)
    assert (of_a_warp.bytes_per_thread, of_a_warp.cycles) == (bytes_per_thread, cycles)
    assert len(of_a_warp.elements) == 32


def test_an_access_is_framed_and_its_conflict_in_the_text():
    column, row = (draw.layout(PLAIN, access=registers) for registers in (A_COLUMN, A_ROW))
    conflict = "An access by warp 0: 16 bytes per thread, 8 cycles (8-way bank conflict)."
    assert conflict in column.alt
    assert "An access by warp 0: 4 bytes per thread, 1 cycle (no bank conflict)." in row.alt
    assert column.png != row.png
    words = "An access is between a layout in shared memory and one in registers"
    with pytest.raises(CourseError, match=words):
        draw.layout(PLAIN, access=PLAIN)


def test_a_slider_holds_a_picture_for_each_value(monkeypatch):
    slide = draw.slide(lambda block: draw.programs(10, block), block=[2, 4])
    assert [frame[0] for frame in slide.frames] == ["2", "4"]
    shown, _ = slide._repr_mimebundle_()
    assert shown["text/html"].count("<img") == 2
    assert "block = 4: " in shown["text/plain"]
    monkeypatch.setenv("COURSE_STATIC", "1")
    assert set(slide._repr_mimebundle_()) == {"text/html", "text/plain"}
