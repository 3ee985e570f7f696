"""What the boxes of a layout's picture say."""

from course.display.colors import BANKS, LIGHT, WARPS
from course.lowering.layout_boxes import (
    bank_boxes,
    boxes_of_one,
    ranges,
    rows_of,
    shared_small,
    thread_boxes,
)
from course.lowering.layouts import Layout


def layout(kind, shape, element="f32", **bases):
    return Layout("", f"#ttg.{kind}<{{}}>", shape, element, {"block": [], **bases}, ())


def powers(first, last):
    """The bases of a vector's elements: first, 2 * first … last."""
    return [[2**i] for i in range(first.bit_length() - 1, last.bit_length())]


EIGHT_WARPS = layout(
    "blocked", (1024,), register=powers(1, 2), lane=powers(4, 64), warp=powers(128, 512)
)
# 16 elements: a warp has four of them, and eight of its threads hold the same one.
SLICE = layout("slice", (16,), register=[[0]], lane=[[0], [0], [0], [1], [2]], warp=[[4], [8]])


def test_eight_warps_have_a_row_and_a_color_each():
    rows = [thread_boxes(EIGHT_WARPS, row) for row in rows_of(EIGHT_WARPS)]
    assert [{box.color for box in row} for row in rows] == [{color} for color in WARPS]
    assert [box.text for box in rows[7]] == [f"7:{lane}" for lane in range(32)]
    assert {(box.width, box.small) for box in rows[7]} == {(4, "r0-3")}


def test_registers_that_are_the_same_in_all_boxes_of_a_row_are_said_once():
    row = thread_boxes(EIGHT_WARPS, next(rows_of(EIGHT_WARPS)))
    boxes, registers = shared_small(row)
    assert registers == "r0-3" and {box.small for box in boxes} == {""}


def test_a_slice_shows_every_thread_that_holds_an_element():
    (row,) = rows_of(SLICE)
    boxes = thread_boxes(SLICE, row)
    assert [box.text for box in boxes[:5]] == ["0:0-7", "0:8-15", "0:16-23", "0:24-31", "1:0-7"]


def test_of_one_thread_the_numbers_of_its_elements_are_shown():
    row = next(rows_of(EIGHT_WARPS))
    before, held, after = boxes_of_one(EIGHT_WARPS, row, (0, 1))
    assert (held.width, held.text, held.small) == (4, "4-7", "r0-3")
    for other, width in ((before, 4), (after, 120)):
        assert (other.width, other.text, other.small, other.color) == (width, "", "", LIGHT)
    of_a_slice = boxes_of_one(SLICE, [(i,) for i in range(16)], (1, 9))
    assert [box.text for box in of_a_slice] == ["", "5", ""]


def test_banks_stand_in_eight_groups_and_what_moves_is_framed():
    halves = layout("swizzled_shared", (64,), "f16", offset=powers(1, 32))
    row = next(rows_of(halves))
    boxes = bank_boxes(halves, row, moved=[(0,), (1,), (4,)])
    assert [box.text for box in boxes] == [str(bank) for bank in range(32)]
    assert [box.color for box in boxes] == [BANKS[bank // 4] for bank in range(32)]
    assert [box.text for box in boxes if box.framed] == ["0"]  # of bank 2 only a half is moved


def test_numbers_are_told_as_ranges():
    assert ranges([3]) == "3"
    assert ranges([2, 0, 1]) == "0-2"
    assert ranges([0, 1, 8, 9]) == "0-1,8-9"
    assert ranges(range(0, 32, 4)) == "0,4…28"
