"""What notebooks keep of widgets: text that reads anywhere, and the state that a script wakes."""

import base64
import json
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from course.lessons import saved_widgets
from course.lessons.folders import NOTEBOOKS, ROOT
from tests.support.saved_widgets import kept

KINDS = list(saved_widgets.WIDGETS)
KEPT_TAGS = {
    "a", "blockquote", "br", "code", "details", "div", "em", "h1", "h2", "h3", "h4", "hr", "img",
    "li", "ol", "p", "pre", "span", "strong", "summary", "sup", "table", "tbody", "td", "th",
    "thead", "tr", "ul",
}  # fmt: skip
KEPT_ATTRIBUTES = {"href", "src", "alt", "width", "open"}


class CodeHost(HTMLParser):
    """A page as a code host shows it: no style, no class, no data, no script."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.open, self.blocks, self.folds = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        assert tag in KEPT_TAGS, f"<{tag}> would be dropped with what is in it"
        self.tags.append((tag, {name: v for name, v in attributes if name in KEPT_ATTRIBUTES}))
        if tag not in ("img", "br", "hr"):
            self.open.append(tag)
        if tag == "pre":
            self.blocks.append("")
        if tag == "details":
            self.folds.append("")

    def handle_endtag(self, tag):
        if tag not in ("img", "br", "hr"):
            assert self.open.pop() == tag

    def handle_data(self, text):
        if "pre" in self.open:
            self.blocks[-1] += text
        if "details" in self.open and "code" not in self.open:
            self.folds[-1] += text


def state_in(html):
    packed = re.search(r'data-state="([^"]+)"', html)[1]
    return json.loads(zlib.decompress(base64.b64decode(packed)))


@pytest.mark.parametrize("kind", KINDS)
def test_saved_output_is_text_with_its_state_and_holds_no_script_style_or_handler(
    kind, monkeypatch
):
    html = kept(kind, monkeypatch)["text/html"]
    assert html.startswith(f'<div data-course-widget="{kind}" data-state="')
    assert state_in(html)
    assert not re.search(r"<(script|style|link|iframe)\b|\son\w+=", html)


def test_a_code_host_shows_every_stage_line_by_line(monkeypatch):
    bundle = kept("explore", monkeypatch)
    host = CodeHost(bundle["text/html"])
    overview, *panes = host.blocks
    assert overview == bundle["text/plain"]
    saved_panes = state_in(bundle["text/html"])["panes"]
    for text, pane in zip(panes, saved_panes, strict=True):
        lines = ["".join(line[1::2]) for line in pane["lines"]]
        assert [line[7:] for line in text.split("\n")] == lines
    unfolded = [attributes for tag, attributes in host.tags if tag == "details"]
    assert ["open" in each for each in unfolded] == [pane["open"] for pane in saved_panes]


def test_a_code_host_shows_a_replay_as_lines_and_what_each_did(monkeypatch):
    bundle = kept("replay", monkeypatch)
    (steps,) = CodeHost(bundle["text/html"]).blocks
    assert "line   15      mask = offsets < n_elements\n         | mask: int1 [256]" in steps
    assert steps in bundle["text/plain"]


def test_a_slide_keeps_its_pictures_once(monkeypatch):
    html = kept("slide", monkeypatch)["text/html"]
    assert html.count("data:image/png") == 2
    assert state_in(html) == {"name": "block_size", "values": ["2", "4"]}


def test_a_kept_notebook_holds_a_few_programs_of_a_replay(monkeypatch):
    programs = state_in(kept("replay", monkeypatch)["text/html"])["trace"]["programs"]
    assert programs[0]["program"] == [0, 0, 0]
    assert sum(len(program["steps"]) for program in programs) <= 20_000


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name[:2])
def test_no_saved_output_of_a_lesson_needs_script_or_a_style_sheet(path):
    for cell in json.loads(path.read_text())["cells"]:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            html = "".join(data.get("text/html", ""))
            assert not re.search(r"<(script|style|link|iframe|button)\b|\son\w+=", html)
            assert not html or "text/plain" in data


def by_a_code_host(text):
    """MyST, and so a site made of the notebooks, has the same parser."""
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(text)


def by_nbconvert(text):
    from nbconvert.filters import markdown2html

    return markdown2html(text)


@pytest.mark.parametrize("render", [by_a_code_host, by_nbconvert])
def test_folds_render_in_every_lesson(render):
    folds = 0
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        for cell in json.loads(path.read_text())["cells"]:
            text = "".join(cell["source"])
            if cell["cell_type"] == "markdown" and "<details>" in text:
                host = CodeHost(render(text))
                assert host.open == [] and all(fold.strip() for fold in host.folds)
                assert not any("`" in fold or "**" in fold for fold in host.folds), path.name
                folds += len(host.folds)
    assert folds > 40


def test_the_script_and_the_style_are_written_with_the_standard_library_alone(tmp_path):
    command = [sys.executable, "-S", "-m", "course.lessons.saved_widgets", str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    script = (tmp_path / "course-widgets.js").read_text()
    assert script == saved_widgets.script()
    assert not re.search(r"^(import|export)\b|\bfetch\(|https?:|\beval\(", script, re.MULTILINE)
    assert (tmp_path / "course-widgets.css").read_text() == saved_widgets.style()
