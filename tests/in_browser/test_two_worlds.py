"""What stands in for PyTorch and libtriton in a page does as they do, wherever a page asks it."""

import json
import math
import re

import pytest

from docs.site import ROOT
from docs.site.in_browser import pack

EPS = {"torch.float16": 2**-10, "torch.bfloat16": 2**-7}
IN_THE_PAGE = {"The process": "It", "COURSE_MODE=cpu asks for it": "this page interprets kernels"}
"""What a notebook says, and what a page says in its place."""
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?")


def same(one, other, eps=2e-6) -> bool:
    """Whether two values are alike: exactly, or numbers to the last digits of their dtype."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        if len(one) == 4 and isinstance(one[0], str):  # a tensor, as torch_calls shows it
            eps = EPS.get(one[0], eps)
        return len(one) == len(other) and all(map(same, one, other, [eps] * len(one)))
    if one == other:
        return True
    try:
        return math.isclose(float(one), float(other), rel_tol=eps, abs_tol=eps / 4)
    except (TypeError, ValueError):
        return False


def same_words(one: str, other: str) -> bool:
    """Whether two texts say the same, but for numbers."""
    return NUMBER.sub("#", one) == NUMBER.sub("#", other)


def alike(one: str, other: str) -> bool:
    """Whether two texts say the same, but for the last digits of numbers, and for how many elements
    are off where these digits decide it."""
    one, other = (re.sub(r"Wrong: [\d,]+ of", "Wrong: some of", text) for text in (one, other))
    numbers = [[float(each) for each in NUMBER.findall(text)] for text in (one, other)]
    return same_words(one, other) and all(
        math.isclose(*pair, rel_tol=1e-3, abs_tol=1e-6) for pair in zip(*numbers, strict=True)
    )


@pytest.mark.parametrize("part", ["torch", "libtriton"])
def test_each_call_gives_what_the_real_one_gives(worlds, part):
    page, real = worlds["page"][part], worlds["real"][part]
    assert page.keys() == real.keys()
    assert [name for name in real if not same(real[name], page[name])] == []


def test_each_answer_gets_the_verdict_and_the_sentences_of_the_real_one(worlds):
    page, real = worlds["page"]["answers"], worlds["real"]["answers"]
    assert page.keys() == real.keys() and len(real) > 60
    differ = {name: (real[name], page[name]) for name in real if not alike(real[name], page[name])}
    assert differ == {}
    right = [text for text in page.values() if ": right." in text]
    assert all("The compiler has not seen it" in text for text in right if "Correct in" in text)


def test_each_cell_shows_what_the_notebook_has_recorded(worlds):
    differ = {}
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]-*.ipynb")):
        for cell in filter(pack.runs_here, json.loads(path.read_text())["cells"]):
            name, source = f"{path.stem} {cell['id']}", "".join(cell["source"])
            page, recorded = worlds["page"]["cells"][name], shown(cell)
            for said, instead in IN_THE_PAGE.items():
                recorded["text"] = recorded["text"].replace(said, instead)
            # How far off what is right turns out to be is a matter of the last digits.
            close = same_words if "verify(" in source else alike
            is_same = close(page["text"], recorded["text"]) and not page["error"]
            if not is_same or text(page["html"]) != text(recorded["html"]):
                differ[name] = (recorded, page)
    assert differ == {}


def shown(cell) -> dict[str, str]:
    """What a notebook holds of a cell: what it printed, and its value."""
    printed = [each["text"] for each in cell["outputs"] if each["output_type"] == "stream"]
    data = [each["data"] for each in cell["outputs"] if "data" in each]
    html = [each.get("text/html", each.get("text/plain", "")) for each in data]
    return {"text": joined(printed), "html": joined(html)}


def joined(texts) -> str:
    return "".join("".join(each) for each in texts)


def text(html: str) -> str:
    """HTML without tags, and without the digits that the last bits of a number decide."""
    return re.sub(r"(\.\d\d)\d+", r"\1", re.sub(r"<[^>]*>", "", html)).strip()


def test_no_stand_in_has_a_function_that_nothing_compares(worlds):
    assert worlds["page"]["never"] == []


def test_the_page_has_neither_pytorch_nor_libtriton(worlds, room):
    assert all(path.startswith(str(room)) for path in worlds["page"]["files"].values())
