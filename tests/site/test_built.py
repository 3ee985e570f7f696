"""The built site in a browser: each lesson, its widgets, search, dark, script off, a phone."""

import functools
import gzip
import http.server
import re
import threading
from pathlib import Path

import axe_playwright_python
import pytest

from docs.site import ROOT, check

from .conftest import PHONE, REPOSITORY, WIDE

pytestmark = [
    pytest.mark.site,
    pytest.mark.browser,
    ]  # fmt: skip

LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
SAVED = "[data-course-widget]"
SIDEWAYS = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"
# The theme slides its sidebar in as a page becomes wide, and pushes the text out while it does.
AT_ONCE = "* { transition: none !important; }"
NOT_FIXED_WIDTH = """[...document.querySelectorAll('.bd-article pre, .bd-article pre *')]
    .filter((each) => !getComputedStyle(each).fontFamily.includes('mono')
        && each.textContent.trim()).length"""


def saved_in(site, kind):
    """A lesson that holds a saved widget of a kind."""
    mark = f'data-course-widget="{kind}"'
    pages = ((stem, (site / "lessons" / f"{stem}.html").read_text()) for stem in LESSONS)
    return next(stem for stem, page in pages if mark in page)


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_shows_on_a_phone_and_a_screen_and_its_widgets_are_alive(site, open_page, lesson):
    html = (site / "lessons" / f"{lesson}.html").read_text()
    saved = len(re.findall('data-course-widget="(?:explore|replay)"', html))
    page = open_page(f"lessons/{lesson}.html", size=PHONE)
    page.wait_for_function(f"!document.querySelector('{SAVED}')")
    assert_it_fits(page)
    page.add_style_tag(content=AT_ONCE)
    page.set_viewport_size(WIDE)
    page.wait_for_function(f"innerWidth === {WIDE['width']}")
    assert page.locator(".course-explorer, .course-replay").count() == saved
    assert page.locator(".bd-article h1").count() == 1
    assert_it_fits(page)


@pytest.mark.parametrize("lesson", LESSONS)
def test_on_a_phone_without_script_a_lesson_fits(open_page, lesson):
    assert_it_fits(open_page(f"lessons/{lesson}.html", size=PHONE, java_script_enabled=False))


def assert_it_fits(page):
    """It does not scroll sideways, and its code is of fixed width."""
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
    replay.wait_for(state="attached")
    fold = page.locator("details", has=replay)  # a prediction comes first
    if fold.count():
        fold.locator("summary").first.click()
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


@pytest.fixture(scope="module")
def served(site):
    """The address of a server for the site."""
    handler = functools.partial(Quiet, directory=site)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_from_a_file_the_search_says_what_a_page_is_about(open_page):
    page = open_page("search.html?q=log-sum-exp")
    result = page.locator("#search-results li", has_text="Powers of two").first
    says = result.locator(".context")
    says.wait_for()
    assert says.inner_text().startswith("Your attention is right. Between its two products")
    page.get_by_text("Search finished").first.wait_for(state="attached")


def test_from_a_server_the_search_shows_excerpts_of_the_articles(open_page, served):
    page = open_page("search.html?q=log-sum-exp", base=served)
    result = page.locator("#search-results li", has_text="Powers of two").first
    says = result.locator(".context").first
    says.wait_for()
    assert "Your attention is right. Between its two products" in says.inner_text()
    assert not re.search("System Settings|Contents|Search", says.inner_text())


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


AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
KINDS_OF_PAGES = (
    *("index", "search", "lessons/00-your-first-kernel", "lessons/05-two-dimensions"),
    *("pages/recorded-speeds", "teaching/01-vector-add", "reference/course", "kernels/softmax"),
)


@pytest.mark.parametrize("size", [PHONE, None], ids=["phone", "screen"])
def test_axe_finds_nothing(site, open_page, size):
    explorer = f"lessons/{saved_in(site, 'explore')}"
    for name in (*KINDS_OF_PAGES, explorer):
        page = open_page(f"{name}.html", **({"size": size} if size else {}))
        page.wait_for_function(f"!document.querySelector('{SAVED}')")
        page.wait_for_timeout(400)  # what came late is tended
        page.evaluate(AXE)
        found = page.evaluate("axe.run({ preload: false }).then((all) => all.violations)")
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], name
        assert page.locator("h1").count() == 1, name
        page.close()


def test_a_first_view_takes_at_most_800_kilobytes_packed(site, open_page):
    for name in ("index", "lessons/00-your-first-kernel", "lessons/38-fastest-kernel"):
        loaded = []
        page = open_page(f"{name}.html", loaded=loaded)
        page.wait_for_load_state("networkidle")
        files = {Path(url.removeprefix("file://").partition("?")[0]) for url in loaded}
        packed = sum(len(gzip.compress(file.read_bytes())) for file in files if file.is_file())
        assert 100_000 < packed < 800_000, name
        assert page.locator("svg.fa-magnifying-glass, svg.fa-bars").count() > 0  # icons are there
        page.close()


def test_every_block_of_code_can_be_copied(open_page):
    page = open_page("lessons/02-three-in-one.html")
    page.locator("button.copybtn").first.wait_for(state="attached")
    assert page.locator("button.copybtn").count() >= page.locator("div.highlight").count() > 30


def test_every_page_has_a_description_and_a_card_and_stands_in_the_sitemap(site):
    listed = (site / "sitemap.xml").read_text()
    address = "https://someone.github.io/triton-course"
    pages = [*site.glob("*.html"), *site.glob("[lpt]*/*.html")]
    assert len(pages) > 80
    for path in pages:
        name, html = path.relative_to(site).as_posix(), path.read_text()
        if name in ("search.html", "genindex.html"):
            continue
        assert f"<loc>{address}/{name}</loc>" in listed, name
        for tag in ('name="description"', 'property="og:description"', 'property="og:title"'):
            assert re.search(f'<meta {tag} content="[^"]{{3,}}"', html), (name, tag)
        (card,) = re.findall(f'property="og:image" content="{address}/([^"]+)"', html)
        assert (site / card).read_bytes().startswith(b"\x89PNG"), name
    cards = {re.findall('og:image" content="([^"]+)"', path.read_text())[0] for path in pages
             if path.parent.name == "lessons"}  # fmt: skip
    assert len(cards) > 20


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_opens_elsewhere_with_one_click(site, lesson):
    links = check.read(site / "lessons" / f"{lesson}.html").links
    name = REPOSITORY.removeprefix("https://github.com/")
    assert {
        f"https://colab.research.google.com/github/{name}/blob/colab/{lesson}.ipynb",
        f"https://codespaces.new/{name}?quickstart=1",
        f"{REPOSITORY}/edit/main/solutions/{lesson}.py",
        f"../notebooks/{lesson}.ipynb",
    } <= set(links)
    notebook = (site / "notebooks" / f"{lesson}.ipynb").read_text()
    (wheel,) = site.glob("*.whl")
    assert f"pip install -q https://someone.github.io/triton-course/{wheel.name}" in notebook
    inside = re.findall(r"\]\((?!https?:|#)[^)]*\)", notebook)
    assert not [link for link in inside if link.endswith((".ipynb)", ".py)", ".md)"))]


def test_the_front_page_shows_a_kernel_its_replay_a_plot_and_where_to_begin(open_page):
    page = open_page("index.html")
    assert "tl.store(out_ptr + i, 2 * x)" in page.locator(".runs-here").inner_text()
    replay = page.locator(".course-replay[data-ready]")
    replay.wait_for()
    before = replay.locator("output").first.inner_text()
    replay.locator("button[aria-label='step']").click()
    assert replay.locator("output").first.inner_text() != before
    begin = page.locator(".begin a")
    for shown in (begin, page.locator(".runs-here")):
        box = shown.bounding_box()
        assert box["y"] + box["height"] < 900  # on the first screen
    plot = page.locator(".speeds svg[role='img']")
    assert "torch.compile at most" in plot.get_attribute("aria-label")
    begin.click()
    page.wait_for_url("**/00-your-first-kernel.html")


def test_an_explorer_is_wider_than_the_text_fills_the_screen_and_its_borders_can_be_dragged(
    site, open_page
):
    page = open_page(f"lessons/{saved_in(site, 'explore')}.html")
    explorer = page.locator(".course-explorer").first
    explorer.locator(".full-screen").click()
    page.wait_for_function("document.fullscreenElement")
    panes = explorer.locator(".pane")
    before = panes.first.bounding_box()
    x, y = before["x"] + before["width"] - 4, before["y"] + before["height"] - 4
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 200, y)
    page.mouse.up()
    assert panes.first.bounding_box()["width"] == pytest.approx(before["width"] - 200, abs=20)
    explorer.locator(".full-screen").click()
    page.wait_for_function("!document.fullscreenElement")
    article = page.locator(".bd-article > section").bounding_box()
    assert explorer.bounding_box()["width"] > 1.2 * article["width"]


def test_a_question_is_judged_on_the_page(open_page):
    page = open_page("lessons/02-three-in-one.html")
    form = page.locator("form[data-question]").first
    for typed, verdict in (("", "to do"), ("256 MB", "wrong"), ("268.4", "right")):
        form.locator("input").fill(typed)
        form.locator("button").click()
        assert form.locator("output").inner_text().removeprefix("✓ ").startswith(verdict)


def test_on_a_phone_a_wide_picture_shows_that_there_is_more(open_page):
    page = open_page("lessons/05-two-dimensions.html", size=PHONE)
    wide = page.wait_for_selector(".more")
    wide.evaluate("(box) => { box.scrollLeft = box.scrollWidth; }")
    page.wait_for_function("(box) => !box.classList.contains('more')", arg=wide)
