"""The picture of recorded warps: a row for each role, and what is in it."""

import io

import pytest
from PIL import Image

from course import draw
from course.benching.attention_timeline import AttentionTimeline, TracedLaunch, TracedProgram, Warp
from course.display.colors import WORK
from course.draw.warp_timeline import COLORS
from course.errors import CourseError
from course.gpus.recorded import Machine

MACHINE = Machine("A GPU", "1.2", "2.11.0+cu130", "3.9.0", "2026-01-02")
STATES = tuple(COLORS)


def warp(number, role, *spans):
    """spans: state, cycles since the one before, its own cycles."""
    return Warp(number, role, tuple((STATES.index(state), gap, own) for state, gap, own in spans))


CONSUMERS = [
    warp(
        number, f"consumer {number // 4}", ("wait for a tile", 0, 100), ("start a product", 10, 20),
        ("wait for a product", 0, 200), ("softmax", 20, 300), ("store the output", 0, 50),
    )
    for number in (0, 1, 4)
]  # fmt: skip
PRODUCER = warp(10, "producer", ("start a copy", 0, 30), ("wait for a slot", 0, 400))


def launch(*begins_ns):
    """Two consumers, programs that begin at these times and last 700 cycles, or 700 ns."""
    programs = tuple(
        TracedProgram(number, begins, 700, (*CONSUMERS, PRODUCER))
        for number, begins in enumerate(begins_ns)
    )
    return AttentionTimeline(
        machine=MACHINE, source_hash="", states=STATES,
        launches={"two consumers": TracedLaunch(128, 1024, 33, 30.0, 33.0, programs)},
        recorded=True,
    ).of("two consumers")  # fmt: skip


def rows(figure):
    (axes,) = figure.axes
    return [text.get_text() for text in axes.get_yticklabels()]


def test_a_warp_group_has_one_row_unless_every_warp_is_asked_for(drawn_figure):
    draw.timeline(launch(0))
    assert rows(drawn_figure()) == ["consumer 0", "consumer 1", "producer", "products"]
    draw.timeline(launch(0), warps="all")
    assert rows(drawn_figure()) == [
        "consumer 0, warp 0", "consumer 0, warp 1", "consumer 1, warp 4", "producer, warp 10",
        "products",
    ]  # fmt: skip


def test_programs_share_rows_where_they_follow_one_another_and_not_where_they_overlap(drawn_figure):
    draw.timeline(launch(0, 900))
    assert rows(drawn_figure()) == ["consumer 0", "consumer 1", "producer", "products"]
    draw.timeline(launch(0, 300))
    names = rows(drawn_figure())
    assert names[2:4] == ["program 0: producer", "program 1: consumer 0"] and len(names) == 7


def test_a_bar_lies_where_its_span_lies_in_the_color_of_its_state(drawn_figure):
    draw.timeline(launch(0))
    (axes,) = drawn_figure().axes
    softmax = [bars for bars in axes.collections if hex_of(bars) == WORK["softmax"].lower()]
    extents = [path.get_extents() for bars in softmax for path in bars.get_paths()]
    assert [(box.x0, box.x1, round((box.y0 + box.y1) / 2)) for box in extents] == [
        (350, 650, 0), (350, 650, 1)
    ]  # fmt: skip


def hex_of(bars):
    colors = bars.get_facecolor()
    return "#" + "".join(f"{round(255 * part):02x}" for part in colors[0][:3])


def test_every_state_has_a_color_of_its_own():
    assert len(set(COLORS.values())) == len(COLORS)


def test_the_picture_is_the_same_each_time_and_its_text_says_the_shares():
    picture = draw.timeline(launch(0), between=(100, 600))
    assert picture.png == draw.timeline(launch(0), between=(100, 600)).png
    assert "cycles 100 to 600 of 700" in picture.alt
    assert "producer: start a copy 4%, wait for a slot 57%, has ended 39%" in picture.alt
    image = Image.open(io.BytesIO(picture.png))
    assert image.size[0] == 2 * picture.width == 1800 and len(picture.png) < 60_000


@pytest.mark.parametrize("between", [(-1, 5), (5, 5), (700, 800)])
def test_cycles_that_were_not_recorded_are_refused(between):
    with pytest.raises(CourseError, match="the smaller one, and below 700"):
        draw.timeline(launch(0), between=between)


def test_a_shorter_launch_can_be_drawn_to_the_scale_of_a_longer_one(drawn_figure):
    draw.timeline(launch(0), between=(0, 1400))
    assert drawn_figure().axes[0].get_xlim() == (0, 1400)


def test_other_words_for_the_rows_are_refused():
    with pytest.raises(CourseError, match='warps="groups" or warps="all"'):
        draw.timeline(launch(0), warps="some")
