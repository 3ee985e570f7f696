"""profile: what a program launches, counted, in order; from a row to the tools."""

import gc
import json
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest
import torch

import course
from course import CourseError, profile
from course.profiling.seen import Seen
from course.triton_internals.launches_watched import launches_watched

from . import program

X, PLACES = torch.arange(512.0).view(8, 64), torch.tensor([5, 2, 7])
MOVED = {"scale_kernel": 2 * 512 * 4, "take_kernel": 3 * (8 + 2 * 64 * 4)}
"""Bytes, counted by hand: each element is read once and written once; a place has 8 bytes."""


@pytest.fixture(scope="module")
def profiled():
    """A profile of a step of training, run three times."""
    with profile() as p:
        for _ in range(3):
            program.step(X, PLACES)
    return p


def test_each_kernel_has_a_row_with_what_it_moves_and_the_line_it_came_from(profiled):
    rows = {row.name: row for row in profiled.rows}
    assert {name: row.launches for name, row in rows.items()} == dict.fromkeys(MOVED, 3)
    for name, row in rows.items():
        assert row.counted.distinct_loaded + row.counted.distinct_stored == MOVED[name]
        assert row.least_us == pytest.approx(3 * row.counted.least_us)
        assert row.counted.resources.spill_bytes == 0
    lines = Path(program.__file__).read_text().split("\n")
    path = rows["take_kernel"].path
    assert [place.function for place in path[-3:]][1:] == ["step", "take"]
    assert "take_kernel[" in lines[path[-1].line - 1]
    assert rows["scale_kernel"].launch.kwargs["config"].kwargs == {"SIZE": 256}


@pytest.mark.skipif(course.MODE.gpu, reason="needs CPU mode: a GPU takes times")
def test_rows_stand_in_the_order_of_what_they_take_at_best(profiled):
    assert [row.name for row in profiled.rows] == ["scale_kernel", "take_kernel"]
    table = profiled.table()
    assert table[0][1:5] == ("kernel", "launches", "at best", "share")
    assert table[1][1:3] == ("scale_kernel", "3") and f"{MOVED['scale_kernel']:,}" in table[1]
    depths = [depth for depth, _ in profiled.branches()]
    texts = [text for _, text in profiled.branches()]
    assert depths[0] == 0 and "in step: " in texts[0]
    assert "[0] scale_kernel, 3 x" in texts[2] and "[1] take_kernel, 3 x" in texts[4]


def test_the_program_computes_what_it_computes_without():
    x = torch.randn(8, 64)
    alone = program.step(x, PLACES)
    with profile():
        watched = program.step(x, PLACES)
    assert torch.equal(alone.view(torch.int32), watched.view(torch.int32))


@pytest.mark.parametrize("data", [False, True])
def test_no_tensor_is_held_longer_than_its_launch(data):
    with profile(data=data) as p:
        x = torch.randn(8, 64)
        gone = weakref.ref(x)
        program.scale(x, 2.0)  # whose grid is a function that holds it
        del x
        gc.collect()
        assert gone() is None
    outline = p._seen[0].recorded.args[0]
    assert outline.is_meta != data and outline.shape == (8, 64)
    assert outline.untyped_storage().device.type == ("cpu" if data else "meta")


def test_small_integers_are_kept_since_places_follow_from_them(profiled):
    (take,) = (row for row in profiled.rows if row.name == "take_kernel")
    x, places, *_ = take.launch.args
    assert x.is_meta and places.tolist() == PLACES.tolist()


def test_arguments_of_another_kind_have_a_row_of_their_own_and_other_numbers_have_not():
    with profile(run=False) as p:
        for factor in (1.0, 2.0, 3.0):
            program.scale(X, factor)
        program.scale(X[:4], 1.0)
    assert sorted(row.launches for row in p._seen) == [1, 3]


def test_launches_of_other_threads_are_seen():
    with profile(run=False) as p:
        threads = [threading.Thread(target=program.take, args=(X, PLACES)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [row.launches for row in p._seen] == [4]


def test_what_cannot_be_recorded_harms_no_launch_and_is_named(monkeypatch):
    def refuse(*_):
        raise MemoryError("no room")

    monkeypatch.setattr("course.tracing.copies.Outlines._copied", refuse)
    with profile() as p:
        assert program.scale(X, 2.0)[0, 1] == 2
    assert "MemoryError: no room" in str(p)
    with pytest.raises(CourseError, match="was not recorded: MemoryError: no room"):
        p[0].cost()


def test_a_with_that_fails_still_has_what_was_seen():
    with pytest.raises(ZeroDivisionError), profile(run=False) as p:
        program.scale(X, 2.0)
        1 / 0  # noqa: B018
    assert [row.name for row in p._seen] == ["scale_kernel"]
    program.scale(X, 2.0)
    assert p._seen[0].launches == 1


def test_nothing_launched_is_said():
    with profile() as p:
        X.sum()
    assert str(p) == "No kernel was launched through Triton." and len(p) == 0


def test_a_row_goes_to_the_tools(profiled, tmp_path):
    (take,) = (row for row in profiled.rows if row.name == "take_kernel")
    assert take.diagnose().kernel == "take_kernel"
    assert take.explore().panes[0]["name"] == "source"
    assert take.replay().recording.grid == (3, 1, 1)
    file = take.reproduce(tmp_path / "again.py")
    text = file.read_text()
    assert "torch.tensor([5, 2, 7])" in text and f"PyTorch {torch.__version__}" in text
    ended = subprocess.run(
        [sys.executable, file],
        env={"PATH": os.environ["PATH"], "TRITON_INTERPRET": "1", "HOME": str(tmp_path)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0 and "torch.float32, (3, 64)" in ended.stdout, ended.stderr


def test_a_launch_is_verified_against_a_reference_of_what_it_reads(profiled):
    (take,) = (row for row in profiled.rows if row.name == "take_kernel")
    assert take.verify(lambda x: x[PLACES]).right
    assert not take.verify(lambda x: x[PLACES.flip(0)]).right
    with pytest.raises(CourseError, match=r"take_kernel writes .*out_ptr.*: name one"):
        take.verify(lambda x: x, output="x_ptr")


def test_the_numbers_are_kept_where_they_are_asked_for(tmp_path):
    with profile(data=True) as p:
        program.take(X, PLACES)
    p[0].reproduce(tmp_path / "saved.py")
    saved = torch.load(tmp_path / "saved.pt")
    assert torch.equal(saved[0], X)


def test_a_page_stands_alone_with_an_explorer_of_each_kernel(profiled, tmp_path):
    page = profiled.to_html(tmp_path / "page.html").read_text()
    assert page.count('data-course-widget="explore"') == 2
    assert "scale_kernel" in page and "<script src" not in page and "http-equiv" not in page
    assert "in step: " in page
    fragment = profiled._repr_html_()
    assert fragment.count("<details") == fragment.count("</details>") == 3


def test_two_profiles_are_compared(profiled, tmp_path):
    before = json.loads(profiled.to_json(tmp_path / "before.json").read_text())
    assert profiled.against(tmp_path / "before.json").count("the same") == 2
    row = before["rows"][0]
    row["least_us"] /= 2
    row["us"] = row["us"] and row["us"] / 2
    row["resources"]["registers"] += 8
    row["stages"]["ptx"] = "another"
    before["rows"][1]["name"] = "was_kernel"
    before["made_by"] = "Triton 3.0"
    (tmp_path / "before.json").write_text(json.dumps(before))
    lines = profiled.against(tmp_path / "before.json").splitlines()
    uses = row["resources"]["registers"]
    assert lines[1].split()[0] == row["name"] and lines[1].endswith("slower")
    assert f"{row['name']}: registers {uses}, now {uses - 8}" in lines
    assert f"{row['name']}: compiled to something else from PTX on" in lines
    assert any(line.startswith("was_kernel") and line.endswith("gone") for line in lines)
    assert "before: Triton 3.0" in lines
    (tmp_path / "before.json").write_text("[]")
    with pytest.raises(CourseError, match="is no profile"):
        profiled.against(tmp_path / "before.json")


def test_a_launch_that_was_seen_before_is_told_no_more():
    """Between the launches that it looks at, a launch takes one look at its arguments."""
    told = []

    class Counting(Seen):
        def ready(self, launch):
            told.append(launch)
            super().ready(launch)

    seen = Counting(False, None, lambda _: None)
    with launches_watched(seen, run=False):
        for _ in range(5):
            program.take(X, PLACES)
    assert len(told) == 1 and next(iter(seen.rows.values())).launches == 5


def test_on_a_gpu_a_kernel_that_brings_nothing_new_is_looked_at_now_and_then():
    seen = Seen(False, None, lambda _: None, thinly=True)
    with launches_watched(seen, run=False):
        for _ in range(64 + 160):
            program.take(X, PLACES)
        program.scale(X, 2.0)
        for _ in range(16):
            program.take(X[:, :32].clone(), PLACES)
    launched = [row.launches for row in seen.rows.values()]
    assert launched == [64 + 10, 1, 16]  # something new: it is looked at again
