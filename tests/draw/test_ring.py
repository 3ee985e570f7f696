"""The picture of a ring: its little model waits as a simulated kernel does."""

import pytest

from course import draw
from course.draw.ring_timeline import tiles_in_time
from course.errors import CourseError
from course.simulating import barriers
from course.simulating.api import simulate
from course.simulating.barriers import Barrier
from tests.simulating import kernels


@pytest.mark.parametrize(("tiles", "slots"), [(7, 2), (7, 3), (4, 1)])
def test_each_buffer_is_waited_for_at_the_phases_of_a_simulated_ring(tiles, slots, monkeypatch):
    waited = {}

    class Watched(Barrier):
        def waited_for(self, phase):
            return super().waited_for(phase)

        def has_ended(self, phase):
            ended = super().has_ended(phase)
            if ended and self.name.startswith("full"):
                # Asked again and again: once for each tile counts.
                waited.setdefault(self.name, {})[self.ended] = int(phase)
            return ended

    monkeypatch.setattr(barriers, "Barrier", Watched)
    args, _, _ = kernels.ring_arguments(tiles, slots, "none")
    simulate(kernels.ring_kernel, (1,), *args, orders=["in order"])
    drawn = {}
    for tile in tiles_in_time(tiles, slots):
        name = f"full[{tile.slot}]" if slots > 1 else "full"
        drawn.setdefault(name, []).append(tile.phase)
    assert {name: list(phases.values()) for name, phases in waited.items()} == drawn


@pytest.mark.parametrize("slots", [1, 2, 3, 4])
def test_a_buffer_is_filled_once_it_is_read_and_read_once_it_is_full(slots):
    tiles = tiles_in_time(8, slots)
    for tile in tiles:
        assert tile.arrived <= tile.begun
        if tile.number >= slots:
            assert tiles[tile.number - slots].freed <= tile.issued


def test_with_three_buffers_the_consumer_waits_for_the_first_tile_alone():
    waits = {
        slots: [tile.number for tile in tiles_in_time(6, slots) if tile.begun > tile.wanted]
        for slots in (1, 2, 3)
    }
    assert waits == {1: [0, 1, 2, 3, 4, 5], 2: [0, 2, 4], 3: [0]}


def test_the_words_stop_where_the_picture_does():
    halfway, whole = draw.ring(6, 2, until=2).alt, draw.ring(6, 2).alt
    assert "until 2 of 6 tiles are read" in halfway
    assert "for tile 3 the producer waits for empty[1]" in halfway
    assert "for tile 4" not in halfway
    assert "for tile 2 the consumer" not in halfway
    assert "for tile 2 the consumer waits for full[0], phase 1" in whole


@pytest.mark.parametrize("wrong", [{"slots": 0}, {"tiles": 9}, {"until": 0}, {"slots": 1.5}])
def test_a_ring_of_another_size_is_refused(wrong):
    with pytest.raises(CourseError, match="must be a whole number of"):
        draw.ring(**wrong)


def test_a_ring_of_more_buffers_is_drawn_to_the_same_scale(drawn_figure):
    shown = []
    for slots in (1, 3):
        draw.ring(tiles=6, slots=slots)
        shown.append(drawn_figure().axes[0].get_xlim())
    assert shown[0] == shown[1]


@pytest.mark.parametrize("slots", [1, 2, 3, 4])
def test_every_label_stays_in_its_bar(slots, drawn_figure):
    draw.ring(tiles=6, slots=slots)
    axes = drawn_figure().axes[0]
    bars = [bar.get_window_extent() for bar in axes.patches]
    labels = [text.get_window_extent() for text in axes.texts if text.get_ha() == "center"]
    assert len(labels) > 12
    for label in labels:
        middle = (label.x0 + label.x1) / 2, (label.y0 + label.y1) / 2
        bar = next(each for each in bars if each.contains(*middle))
        assert bar.x0 <= label.x0 and label.x1 <= bar.x1
