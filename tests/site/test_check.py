"""What is wrong with a page is said, and what is right is let be."""

import pytest

from docs.site.check import check

GOOD = """<!doctype html><html><head><link rel="stylesheet" href="site.css"></head><body>
<h1 id="top">A page</h1><a href="#top">up</a> <a href="sub/other.html#there">over</a>
<a href="search.html?q=tile">search</a> <a href="https://triton-lang.org/">outside</a>
<img src="data:image/png;base64,//8=" alt="a picture"><svg role="img" aria-label="a plot"></svg>
</body></html>"""


@pytest.fixture
def site(tmp_path):
    """A site of three good pages."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text(GOOD)
    (tmp_path / "search.html").write_text("<p>search</p>")
    (tmp_path / "sub" / "other.html").write_text('<p id="there"></p><a href="../index.html">b</a>')
    (tmp_path / "site.css").write_text("p { background: url(picture.png) }")
    return tmp_path


def test_good_pages_have_no_problem_and_outside_links_are_listed(site):
    report = check(site)
    assert (report.pages, report.problems) == (3, [])
    assert report.outside == {"https://triton-lang.org/": ["index.html"]}


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="gone.html">', "a link leads nowhere: gone.html"),
        ('<a href="../../etc/passwd">', "a link leads nowhere"),
        ('<a href="other.html#gone">', "anchor is not there: other.html#gone"),
        ('<a href="#gone">', "anchor is not there: #gone"),
        ('<a href="javascript:alert(1)">', "no use on the web"),
        ('<img src="gone.png" alt="a">', "what it loads is not there: gone.png"),
        ('<img src="data:,">', "a picture has no text"),
        ('<img src="data:," alt=" ">', "a picture has no text"),
        ('<svg role="img"></svg>', "a picture has no text: <svg role=img>"),
        ('<script src="https://cdn.example/x.js"></script>', "loads from another host"),
        ('<link rel="stylesheet" href="//fonts.example/x.css">', "loads from another host"),
        ('<p style="background:url(http://x.example/a.png)">', "loads from another host"),
        ('<p onclick="x()">', "has the handler onclick"),
    ],
)
def test_a_problem_is_said_with_its_page(site, html, problem):
    page = site / "sub" / "other.html"
    page.write_text(page.read_text() + html)
    (said,) = check(site).problems
    assert said.startswith("sub/other.html: ")
    assert problem in said


@pytest.mark.parametrize("rule", ["@import 'http://x.example/a';", "a{src:url(//x.example/f)}"])
def test_a_style_sheet_loads_from_no_other_host(site, rule):
    (site / "site.css").write_text(rule)
    (said,) = check(site).problems
    assert said.startswith("site.css: a style loads")
