"""The ruler of memory in a browser: its script tells and draws what Python does."""

import pytest

from course import draw
from course.display.widget import page_of
from course.draw.memory_ruler import DTYPES, KIND, SCRIPT, WarpAccess

pytestmark = pytest.mark.browser

WAYS = [
    WarpAccess(0, 1, 4, 0, 32),
    WarpAccess(1, 4, 4, 1, 32),
    WarpAccess(2, 16, 1, 16, 9),
    WarpAccess(8, 2, 8, 5, 1),
    WarpAccess(24, 1, 4, 0, 17),  # gaps of two sectors
    WarpAccess(8, 4, 4, 5, 32),  # more than there is room for
    WarpAccess(1024, 1, 2, 31, 32),
]


@pytest.fixture
def ruler_page(page, tmp_path):
    """A page with a ruler that opens at stride 1."""
    path = tmp_path / "ruler.html"
    state = {"settings": draw.ruler().settings}
    path.write_text(page_of(KIND, SCRIPT, "ruler", state, "no script"))
    page.goto(f"file://{path}")
    page.locator(".course-ruler").wait_for()
    return page


def told(page):
    return page.get_by_role("status").inner_text()


def test_a_key_moves_a_slider_and_the_sentence_and_the_drawing_follow(ruler_page):
    assert told(ruler_page) == WarpAccess(1, 1, 4, 0, 32).sentence
    assert ruler_page.locator("rect.sector").count() == 4
    stride = ruler_page.get_by_role("slider", name="stride")
    stride.press("ArrowRight")
    assert stride.get_attribute("aria-valuetext") == "2"
    assert told(ruler_page) == WarpAccess(2, 1, 4, 0, 32).sentence
    assert ruler_page.locator("rect.sector").count() == 8
    assert told(ruler_page) in ruler_page.get_by_role("img").get_attribute("aria-label")
    assert ruler_page.problems == []


@pytest.mark.parametrize("access", WAYS, ids=str)
def test_the_script_tells_what_python_tells(ruler_page, access):
    page = ruler_page
    sliders = {name: page.get_by_role("slider", name=name) for name in ("start", "threads on")}
    sliders["start"].fill(str(access.start))
    sliders["threads on"].fill(str(access.threads - 1))
    page.get_by_label("dtype").select_option(DTYPES[access.itemsize])
    page.get_by_label("elements per thread").select_option(str(access.per_thread))
    stride = page.get_by_role("slider", name="stride")
    stride.press("Home")
    while stride.get_attribute("aria-valuetext") != str(access.stride):
        stride.press("ArrowRight")
    assert told(page) == access.sentence
    sectors = [count for _, count in access.slots if count == 1]
    assert page.locator("rect.sector").count() == len(sectors)
    assert page.locator("text", has_text="bytes …").count() == len(access.slots) - len(sectors)


def test_what_one_thread_cannot_load_at_once_cannot_be_chosen(ruler_page):
    ruler_page.get_by_label("elements per thread").select_option("4")
    options = ruler_page.get_by_label("dtype").locator("option:disabled")
    assert options.all_inner_texts() == ["float64"]
