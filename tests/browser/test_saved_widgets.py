"""Saved widgets in a browser: as nbconvert and a site show them, with script and without."""

import nbformat
import pytest

from course.lessons import saved_widgets
from tests.support.saved_widgets import kept

pytestmark = pytest.mark.browser

KINDS = list(saved_widgets.WIDGETS)
FACE = """blocks => blocks.map(block => {
    const style = getComputedStyle(block);
    return [style.fontFamily, style.whiteSpace];
})"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A page as a site makes it: each widget as it is saved, and the one script as a file."""
    saved_widgets.main(tmp_path)
    parts = [kept(kind, monkeypatch)["text/html"] for kind in KINDS]
    head = (
        '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="course-widgets.css">'
        '<script defer src="course-widgets.js"></script>'
    )
    path = tmp_path / "page.html"
    path.write_text("\n".join([head, *parts]))
    return f"file://{path}"


def test_one_script_wakes_every_widget_from_a_file(page, site):
    page.goto(site)
    page.locator(".course-replay[data-ready]").wait_for()
    assert page.locator("[data-course-widget]").count() == 0
    explorer = page.locator(".course-explorer")
    explorer.get_by_text("x = tl.load").hover()
    lit = explorer.locator('.pane[aria-label="PTX"] .line.on').all_inner_texts()
    assert any("ld.global" in line for line in lit)
    replay = page.locator(".course-replay")
    replay.get_by_role("button", name="step", exact=True).click()
    assert replay.locator(".line.on").inner_text().strip().startswith("offsets =")
    slide = page.get_by_role("slider", name="block_size")
    slide.fill("1")
    assert page.locator("img").count() == 1
    assert slide.get_attribute("aria-valuetext") == "4"
    assert page.problems == []


def test_where_the_state_cannot_be_read_the_text_stays(page, site):
    page.add_init_script("delete window.DecompressionStream;")
    page.goto(site)
    page.wait_for_function("window.courseWidgets")
    assert page.locator("[data-course-widget]").count() == len(KINDS)
    assert page.get_by_text("x = tl.load").first.is_visible()
    assert page.problems == []


def test_on_a_phone_nothing_is_wider_than_the_page(new_context, site):
    page = new_context(viewport={"width": 390, "height": 800}).new_page()
    page.goto(site)
    page.locator(".course-replay[data-ready]").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_stages_are_fixed_width_and_unwrapped_in_a_page_by_nbconvert(
    new_context, tmp_path, monkeypatch
):
    from nbconvert import HTMLExporter

    notebook = nbformat.v4.new_notebook()
    for kind in ("explore", "replay"):
        output = nbformat.v4.new_output("display_data", data=kept(kind, monkeypatch))
        notebook.cells.append(nbformat.v4.new_code_cell("shown", outputs=[output]))
    html, _ = HTMLExporter().from_notebook_node(notebook)
    path = tmp_path / "page.html"
    path.write_text(html)
    page = new_context(java_script_enabled=False).new_page()
    page.goto(f"file://{path}", wait_until="domcontentloaded")
    faces = page.locator("[data-course-widget] pre code").evaluate_all(FACE)
    assert len(faces) == 8
    assert all("mono" in face and space == "pre" for face, space in faces), faces
