"""The ruler of memory, and the tile in shared memory: what is touched, and how it is told."""

import itertools
import re

import pytest

from course import draw
from course.display.colors import BANKS
from course.draw.memory_ruler import IN_A_ROW, MOST_SLOTS, WarpAccess, draw_access, thread_color
from course.draw.tile_exchange import words_of
from course.errors import CourseError

SETTINGS = [
    WarpAccess(*each)
    for each in itertools.product(
        (0, 1, 2, 3, 8, 32, 1000), (1, 2, 4, 16), (1, 2, 4, 8), (0, 1, 4, 31), (1, 17, 32)
    )
    if each[1] * each[2] <= 16
]


def bytes_of(access, k):
    """The bytes that the threads ask for with the k-th of their elements."""
    elements = [
        access.start + thread * access.stride * access.per_thread + k
        for thread in range(access.threads)
    ]
    return {element * access.itemsize + b for element in elements for b in range(access.itemsize)}


def test_sectors_and_bytes_are_as_many_as_counted_byte_by_byte():
    for access in SETTINGS:
        loads = [bytes_of(access, k) for k in range(access.per_thread)]
        asked = set().union(*loads)
        touched = {byte // 32 for byte in asked}
        plural = "sector" if len(touched) == 1 else "sectors"
        counts = f"{len(touched)} {plural}: {32 * len(touched):,} bytes are moved, "
        assert f"{counts}and {len(asked):,} are wanted." in access.sentence, access
        assert access.touched == sorted(touched)
        wide = access.per_thread * access.itemsize
        if access.per_thread == 1:
            assert "load" not in access.sentence
        elif min(asked) % wide == 0:
            assert access.sentence.endswith(f" Each thread takes its {wide} bytes in one load.")
        else:
            total = sum(len({byte // 32 for byte in load}) for load in loads)
            assert access.sentence.endswith(f"{len(loads)} loads touch {total} sectors.")


def test_the_ruler_has_each_touched_sector_once_and_leaves_out_no_other_without_a_mark():
    for access in SETTINGS:
        slots = access.slots
        assert len(slots) % IN_A_ROW == 0 and len(slots) <= MOST_SLOTS
        assert slots[0][0] == 0
        assert all(
            first + count == after for (first, count), (after, _) in itertools.pairwise(slots)
        )
        shown = {first for first, count in slots if count == 1}
        left = set(access.touched) - shown
        assert not left or (len(slots) == MOST_SLOTS and min(left) >= slots[-1][0])


@pytest.mark.parametrize(
    ("strides", "settings", "words"),
    [
        ((), {}, "The 32 threads touch 4 sectors: 128 bytes are moved, and 128 are wanted."),
        ((2,), {}, "touch 8 sectors: 256 bytes are moved, and 128 are wanted."),
        ((128,), {"start": 1}, "Stride 128, from element 1; each thread takes one float32. The"),
        ((0,), {}, "touch 1 sector: 32 bytes are moved, and 4 are wanted."),
        ((), {"itemsize": 1}, "touch 1 sector: 32 bytes are moved, and 32 are wanted."),
        ((), {"threads": 9}, "The 9 threads that are on touch 2 sectors: 64 bytes"),
        ((), {"threads": 1}, "The 1 thread that is on touches 1 sector: 32 bytes"),
        (
            (),
            {"per_thread": 4, "start": 1},
            "each thread takes 4 neighboring float32. The 32 threads touch 17 sectors: 544 bytes "
            "are moved, and 512 are wanted. Thread 0 begins at byte 4, which is no multiple of 16, "
            "so the load cannot be wide: 4 loads touch 65 sectors.",
        ),
    ],
)
def test_it_is_told_in_words(strides, settings, words):
    assert words in str(draw.ruler(*strides, **settings))


def test_where_no_script_runs_each_stride_has_its_sentence_and_its_picture(monkeypatch):
    monkeypatch.setenv("COURSE_STATIC", "1")
    shown = draw.ruler(1, 8)._repr_mimebundle_()
    told = re.findall(r"<p>stride (\d): The 32 threads touch (\d+) sectors", shown["text/html"])
    assert told == [("1", "4"), ("8", "32")]
    alts = re.findall(r'src="data:image/png;base64,[^"]+" alt="([^"]+)"', shown["text/html"])
    assert set(shown) == {"text/html", "text/plain"} and "\n".join(alts) == shown["text/plain"]
    assert draw.exchange(5).alt == words_of(5)


def test_each_setting_changes_the_picture():
    plain = WarpAccess(stride=2, per_thread=1, itemsize=4, start=0, threads=32)
    others = [(1, 1, 4, 0, 32), (2, 2, 4, 0, 32), (2, 1, 8, 0, 32), (2, 1, 4, 3, 32)]
    drawn = {draw_access(WarpAccess(*each)).png for each in [*others, (2, 1, 4, 0, 31)]}
    assert len(drawn | {draw_access(plain).png}) == 6


def test_threads_go_from_dark_to_light_through_the_colors_of_banks():
    colors = [thread_color(thread) for thread in range(32)]
    assert len(set(colors)) == 32 and (colors[0], colors[-1]) == (BANKS[0], BANKS[-1])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: draw.ruler(-1), "stride is -1, and must be a whole number of 0 to 65,536"),
        (lambda: draw.ruler(1, start=0.5), "start is 0.5"),
        (lambda: draw.ruler("1"), "stride is '1'"),
        (lambda: draw.ruler(1, 2, 3, 4, 5), "shows up to 4 strides; these are 5"),
        (lambda: draw.ruler(itemsize=3), "itemsize is 3, and must be 1, 2, 4 or 8"),
        (lambda: draw.ruler(itemsize=[4]), "itemsize is [4], and must be"),
        (lambda: draw.ruler(threads=33), "threads is 33, and must be a whole number of 1 to 32"),
        (lambda: draw.ruler(threads=0), "threads is 0"),
        (
            lambda: draw.ruler(per_thread=8),
            "per_thread is 8, and must be one of 1, 2, 4: a thread loads up to 16 bytes at once.",
        ),
        (lambda: draw.exchange(32), "There is no thread 32: there are 32, counted from 0."),
        (lambda: draw.ruler(per_thread=True), "per_thread is True, and must be"),
    ],
)
def test_what_cannot_be_drawn_is_a_sentence(call, words):
    with pytest.raises(CourseError, match=re.escape(words)):
        call()


@pytest.mark.parametrize("thread", range(32))
def test_a_tile_is_exchanged_so_that_each_thread_stores_neighbors_that_others_loaded(thread):
    words = words_of(thread)
    head, picked, stored = re.split(" From there it takes |, and stores them as ", words)
    loaded = [tuple(map(int, each)) for each in re.findall(r"x\[(\d), (\d)\]", head)]
    taken = [tuple(map(int, each)) for each in re.findall(r"x\[(\d), (\d)\]", picked)]
    out = [tuple(map(int, each)) for each in re.findall(r"out\[(\d), (\d)\]", stored)]
    assert [(column, row) for row, column in out] == taken
    assert [8 * row + column for row, column in loaded] == [2 * thread, 2 * thread + 1]
    assert [8 * row + column for row, column in out] == [2 * thread, 2 * thread + 1]
    loaders = re.search(r"which threads (\d+) and (\d+) loaded", picked).groups()
    assert [int(each) for each in loaders] == [(8 * row + column) // 2 for row, column in taken]
