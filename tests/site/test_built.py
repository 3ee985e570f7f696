"""The built site in a browser: each lesson, its widgets, search, dark, script off, a phone."""

import functools
import http.server
import re
import threading

import pytest

from docs.site import ROOT

from .conftest import PHONE

pytestmark = [
    pytest.mark.site,
    pytest.mark.browser,
    ]  # fmt: skip

LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
SAVED = "[data-course-widget]"
SIDEWAYS = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"
NOT_FIXED_WIDTH = """[...document.querySelectorAll('.bd-article pre, .bd-article pre *')]
    .filter((each) => !getComputedStyle(each).fontFamily.includes('mono')
        && each.textContent.trim()).length"""


def saved_in(site, kind):
    """A lesson that holds a saved widget of a kind."""
    mark = f'data-course-widget="{kind}"'
    pages = ((stem, (site / "lessons" / f"{stem}.html").read_text()) for stem in LESSONS)
    return next(stem for stem, page in pages if mark in page)


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_shows_without_an_error_and_its_widgets_are_alive(site, open_page, lesson):
    html = (site / "lessons" / f"{lesson}.html").read_text()
    saved = len(re.findall('data-course-widget="(?:explore|replay)"', html))
    page = open_page(f"lessons/{lesson}.html")
    page.wait_for_function(f"!document.querySelector('{SAVED}')")
    assert page.locator(".course-explorer, .course-replay").count() == saved
    assert page.locator(".bd-article h1").count() == 1
    assert page.evaluate(SIDEWAYS) <= 0


@pytest.mark.parametrize("script", [True, False])
@pytest.mark.parametrize("lesson", LESSONS)
def test_on_a_phone_a_lesson_does_not_scroll_sideways_and_code_is_fixed_width(
    open_page, lesson, script
):
    page = open_page(f"lessons/{lesson}.html", size=PHONE, java_script_enabled=script)
    if script:
        page.wait_for_function(f"!document.querySelector('{SAVED}')")
    assert page.evaluate(SIDEWAYS) <= 0
    assert page.locator(".bd-article pre").count() > 5
    assert page.evaluate(NOT_FIXED_WIDTH) == 0


def test_text_has_seventy_to_eighty_characters_a_line(open_page):
    page = open_page("lessons/11-softmax-of-a-row.html")
    characters = page.evaluate("""() => {
        const text = [...document.querySelectorAll('.bd-article section > p')]
            .find((each) => each.textContent.length > 200);
        const line = document.createElement('span');
        line.style.whiteSpace = 'nowrap';
        line.append(text.textContent.replace(/\\s+/g, ' '));
        const width = text.clientWidth, length = line.textContent.length;
        text.replaceChildren(line);
        return length * width / line.offsetWidth;
    }""")
    assert 70 <= characters <= 80


def test_hovering_a_line_lights_its_relatives_in_the_other_panes(site, open_page):
    page = open_page(f"lessons/{saved_in(site, 'explore')}.html")
    explorer = page.locator(".course-explorer").first
    panes = explorer.locator(".pane")
    panes.nth(1).wait_for()  # the script has replaced what was saved
    explorer.scroll_into_view_if_needed()
    panes.first.locator(".line.linked", has_text="tl.load").first.hover()
    for number in range(panes.count()):
        panes.nth(number).locator(".line.on").first.wait_for()


def test_a_replay_steps(site, open_page):
    page = open_page(f"lessons/{saved_in(site, 'replay')}.html")
    replay = page.locator(".course-replay[data-ready]").first
    replay.wait_for()
    replay.scroll_into_view_if_needed()
    step = replay.get_by_label("step", exact=True)
    before = replay.locator("output").first.inner_text()
    replay.locator("button[aria-label='first step']").click()
    first = replay.locator("output").first.inner_text()
    replay.locator("button[aria-label='step']").click()
    second = replay.locator("output").first.inner_text()
    assert step.count() and first != second
    assert replay.locator(".line.on").count() >= 1
    assert before


@pytest.mark.parametrize("served", [False, True], ids=["from a file", "from a server"])
def test_the_search_finds_a_lesson(site, open_page, served):
    base = None
    if served:
        handler = functools.partial(Quiet, directory=site)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}"
    try:
        page = open_page("search.html?q=log-sum-exp", base=base)
        page.locator("#search-results a", has_text="Powers of two").first.wait_for()
        page.get_by_text("Search finished").first.wait_for(state="attached")
    finally:
        if served:
            server.shutdown()
            server.server_close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_the_theme_changes_to_dark_and_the_widgets_with_it(site, open_page):
    page = open_page(f"lessons/{saved_in(site, 'explore')}.html", color_scheme="dark")
    dark = page.locator("html[data-theme='dark']")
    dark.wait_for()
    page.wait_for_function(f"!document.querySelector('{SAVED}')")
    back = "getComputedStyle(document.querySelector('{}')).backgroundColor.match(/[\\d.]+/g)"
    for what in ("body", ".course-widget"):
        assert max(map(float, page.evaluate(back.format(what))[:3])) < 80, what
    page.locator(".theme-switch-button").click()
    page.locator(".theme-change-button[data-mode='light']").click()
    page.locator("html[data-theme='light']").wait_for()
    assert min(map(float, page.evaluate(back.format("body"))[:3])) > 200


def test_one_goes_from_the_front_page_through_all_lessons(open_page):
    page = open_page("index.html")
    for lesson in LESSONS:
        page.locator("a.right-next").click()
        page.wait_for_url(f"**/{lesson}.html")
    page.locator("a.left-prev").click()
    page.wait_for_url(f"**/{LESSONS[-2]}.html")


def test_an_exercise_has_its_stub_folded_hints_and_the_command_for_the_lab(open_page):
    page = open_page("lessons/11-softmax-of-a-row.html")
    exercise = page.locator("section", has=page.locator("> h3", has_text="Exercise 11.1")).first
    assert "# to here" in exercise.inner_text()
    assert "make lab LAB=11" in exercise.inner_text()
    hint = exercise.locator("details", has_text="Hint 1").first
    assert hint.get_attribute("open") is None
    body = hint.locator("p").first
    assert not body.is_visible()
    hint.locator("summary").click()
    assert body.is_visible()


@pytest.mark.parametrize("page_name", ["index", "pages/recorded-speeds", "reference/course"])
@pytest.mark.parametrize("size", [PHONE, None], ids=["phone", "screen"])
def test_other_pages_show_without_an_error_and_do_not_scroll_sideways(open_page, page_name, size):
    page = open_page(f"{page_name}.html", **({"size": size} if size else {}))
    page.locator(".bd-article h1").wait_for()
    assert page.evaluate(SIDEWAYS) <= 0
