"""explore: what its panes hold, saved output, and what it answers."""

import json

import pytest
import triton
import triton.language as tl

from course import explore, lower
from course.display import highlight
from course.errors import CourseError
from course.lowering.api import LowerError
from course.lowering.passes import without_locations
from tests.support import lower_kernels as kernels
from tests.support.lower_kernels import ADD


def text_of(pane):
    return ["".join(line[1::2]) for line in pane["lines"]]


def test_every_stage_is_a_pane_and_the_source_comes_first(add):
    panes = explore(add).panes
    assert [pane["name"] for pane in panes] == ["source", "ttir", "ttgir", "llir", "ptx", "sass"]
    assert [pane["name"] for pane in panes if pane["open"]] == ["source", "ttgir", "ptx"]
    amd = explore(kernels.add_kernel, *ADD, 1024, target="gfx942").panes
    assert [pane["name"] for pane in amd if pane["open"]] == ["source", "ttgir", "amdgcn"]


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_a_stage_has_as_many_lines_as_lower_says_and_tells_of_hidden_ones(target):
    lowered = lower(kernels.add_kernel, *ADD, 1024, target=target)
    for pane in explore(lowered).panes[1:]:
        name, (counted, _, *rest) = pane["name"], pane["counted"].split()
        assert int(counted) == len(lowered.text(name).splitlines()), name
        assert name == "sass" or f"{counted} lines" in " ".join(str(lowered).split()), name
        assert int(rest[0].strip("(")) == int(counted) - len(pane["lines"]) > 0, name


def test_lines_of_one_group_belong_together(add):
    panes = {pane["name"]: pane for pane in explore(add).panes}
    group = next(i for i, text in enumerate(text_of(panes["source"])) if "x = tl.load" in text)
    operations = {"ttir": "tt.load", "ttgir": "tt.load", "ptx": "ld.global", "sass": "LDG"}
    for stage, operation in operations.items():
        pairs = zip(text_of(panes[stage]), panes[stage]["groups"], strict=True)
        lines = [text for text, line_group in pairs if line_group == group]
        assert any(operation in line for line in lines), stage
        assert not any("loc(" in line for line in lines)


@pytest.mark.parametrize("stage", ["ttir", "ttgir", "llir", "ptx", "sass"])
def test_colors_change_no_character(add, stage):
    text = add.readable()[stage]
    colored = highlight.lines(text, stage)
    assert "\n".join("".join(part for _, part in line) for line in colored) == text
    classes = {name for line in colored for name, _ in line}
    assert len(classes) >= 4


def test_what_is_saved_can_be_read_and_is_small(add):
    explorer = explore(add)
    shown, _ = explorer._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in shown
    assert "%x_5 = tt.load" in shown["text/html"]
    assert "<script" not in shown["text/html"]
    assert len(json.dumps([explorer.panes, shown])) < 300_000


def test_a_kept_notebook_has_no_widget_in_it(add, monkeypatch):
    monkeypatch.setenv("COURSE_STATIC", "1")
    assert set(explore(add)._repr_mimebundle_()) == {"text/html", "text/plain"}


def test_a_page_holds_all_and_asks_for_nothing(add, tmp_path):
    page = explore(add).to_html(tmp_path / "add.html").read_text()
    assert "http" not in page.replace("http://www.w3.org", "")
    with pytest.raises(CourseError, match="could not be written"):
        explore(add).to_html("/proc/nowhere/add.html")


def test_markup_in_a_kernel_stays_text(tmp_path):
    explorer = explore(kernels.print_kernel, "*fp32", target="sm_90")
    assert "<img" not in explorer._repr_mimebundle_()[0]["text/html"]
    page = explorer.to_html(tmp_path / "p.html").read_text()
    assert "</script><b>" not in page.replace("<\\/script><b>", "")


def answers(explorer, message):
    sent = []
    explorer.send = sent.append
    explorer._answer(explorer, message, [])
    return sent


def choose(explorer, target, num_warps, num_stages):
    choice = {"target": target, "num_warps": num_warps, "num_stages": num_stages}
    assert answers(explorer, {"choose": choice}) == []


def test_another_choice_compiles_again_and_marks_what_changed(add):
    explorer = explore(add)
    choose(explorer, "sm_90", "8", "3")
    ttgir = next(pane for pane in explorer.panes if pane["name"] == "ttgir")
    assert explorer.lowered.resources.num_warps == 8
    assert any("warpsPerCTA = [8]" in text_of(ttgir)[row] for row in ttgir["changed"])
    choose(explorer, "gfx942", "4", "2")
    opened = [pane["name"] for pane in explorer.panes if pane["open"]]
    assert opened == ["source", "ttgir", "amdgcn"]


@triton.jit
def specialized_kernel(a_desc, b_desc, c_desc, K, BLOCK: tl.constexpr):
    acc = tl.zeros([128, 128], tl.float32)
    for k in tl.range(0, K, BLOCK, warp_specialize=True):
        acc = tl.dot(a_desc.load([0, k]), b_desc.load([k, 0]), acc)
    c_desc.store([0, 0], acc.to(tl.float16))


def test_the_warps_of_partitions_do_not_count_for_another_compilation():
    tiles = [f"tensordesc<fp16[{tile}]>" for tile in ("128, 64", "64, 128", "128, 128")]
    lowered = lower(specialized_kernel, *tiles, "i32:16", 64, target="sm_100")
    assert lowered.resources.num_warps > 4
    assert explore(lowered).choices["num_warps"][0] == 4
    again = lowered.replace(ttir=lowered.ttir)
    assert again.resources.num_warps == lowered.resources.num_warps


def test_a_choice_that_does_not_compile_leaves_what_was_there(monkeypatch, add):
    explorer = explore(add)
    before = explorer.panes

    def refuse(*_):
        raise LowerError("It does not compile for that.")

    monkeypatch.setattr("course.lowering.explorer.lower_again", refuse)
    choose(explorer, "sm_80", "4", "3")
    assert explorer.problem == "It does not compile for that."
    assert explorer.panes == before


def test_passes_and_their_diffs_are_sent_when_asked_for(add):
    (listed,) = answers(explore(add), {"passes": True})
    number = next(number for number, name in listed["passes"] if name == "tritongpu-coalesce")
    (sent,) = answers(explore(add), {"diff": number})
    assert "+#blocked1" in sent["diff"]


def test_bad_input_is_a_sentence(add):
    with pytest.raises(CourseError, match="add_kernel for sm_90 has no stage 'amdgcn'"):
        explore(add, stages=["amdgcn"])
    with pytest.raises(CourseError, match="lower takes a kernel"):
        explore(3)


def test_edited_ir_is_shown_without_switches(add):
    explorer = explore(add.replace(ttgir=add.ttgir))
    assert explorer.choices["can_change"] is False
    assert [pane["name"] for pane in explorer.panes][1:3] == ["ttir", "ttgir"]


def test_panes_without_any_location_are_shown_unlinked(add):
    bare = add.replace(ttgir=without_locations(add.ttgir))
    panes = {pane["name"]: pane for pane in explore(bare).panes}
    assert set(panes["ptx"]["groups"]) == {-1}
    assert any("ld.global" in text for text in text_of(panes["ptx"]))
    assert bare.lines.back("ptx", 60) is None
    assert str(bare.lines)
