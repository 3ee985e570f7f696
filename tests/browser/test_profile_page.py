"""The page of a profile in a browser, from its file: it reads, folds, and its explorers wake."""

import pytest
import torch

from course import profile
from tests.profiling import program

pytestmark = pytest.mark.browser

WIDTHS = (1400, 390)
"""Of a desk and of a phone."""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    with profile() as p:
        program.step(torch.arange(512.0).view(8, 64), torch.tensor([5, 2, 7]))
    return p.to_html(tmp_path_factory.mktemp("profile") / "page.html")


def test_the_tree_folds_and_each_explorer_shows_its_kernel(page, path):
    page.goto(f"file://{path}")
    leaf = page.get_by_text("[1] take_kernel, 1 x")
    assert leaf.is_visible()
    page.locator("summary").filter(has_text="in take: ").click()
    assert not leaf.is_visible()
    explorers = page.locator(".course-explorer")
    assert explorers.count() == 2
    explorers.nth(1).scroll_into_view_if_needed()
    explorers.nth(1).get_by_text("def take_kernel").wait_for()
    explorers.nth(1).get_by_role("button", name="LLVM IR").click()
    explorers.nth(1).get_by_text("define ptx_kernel").first.wait_for()
    assert page.problems == []


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_wider_than_the_page_scrolls_in_itself(page, path, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"file://{path}")
    page.locator(".course-explorer").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
