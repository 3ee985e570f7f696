"""In CPU mode verify holds a kernel's promises to the compiler against the values that it finds."""

import pytest
import torch
import triton
import triton.language as tl

from course import MODE
from course.triton_internals.promises import promises_held
from course.verifying.api import verify
from course.verifying.inputs import Case, Input

pytestmark = pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: a GPU cannot be watched so")


@triton.jit
def promise_kernel(x_ptr, out_ptr, number, PROMISE: tl.constexpr):
    lanes = tl.arange(0, 16)
    if PROMISE == "every element a multiple":
        tl.multiple_of(16 * lanes, 16)
    elif PROMISE == "the beginnings of runs are multiples":
        tl.multiple_of(lanes % 4 + lanes // 4 * 8, 8)
    elif PROMISE == "one run begins elsewhere":
        tl.multiple_of(lanes % 4 + lanes // 4 * 7, [8])
    elif PROMISE == "a number":
        tl.multiple_of(number, 4)
    elif PROMISE == "a loop's number":
        for start in range(0, 16, 4):
            tl.multiple_of(start, 8)
    elif PROMISE == "addresses count bytes":
        tl.multiple_of(x_ptr + lanes, 16)
    elif PROMISE == "an allocation's address":
        tl.multiple_of(x_ptr, 256)
    elif PROMISE == "more than an allocation's address":
        tl.multiple_of(x_ptr, 512)
    elif PROMISE == "runs of four":
        tl.max_contiguous(lanes % 4, 4)
    elif PROMISE == "runs of eight":
        tl.max_contiguous(lanes % 4, [8])
    elif PROMISE == "pairs of rows":
        tl.max_contiguous((lanes // 2)[:, None] + lanes[None, :], [1, 16])
    elif PROMISE == "columns":
        tl.max_contiguous((lanes // 2)[:, None] + lanes[None, :], [2, 16])
    elif PROMISE == "four alike":
        tl.max_constancy(lanes // 4, 4)
    elif PROMISE == "eight alike":
        tl.max_constancy(lanes // 4, 8)
    elif PROMISE == "neighbors that are loaded":
        wrapped = tl.max_contiguous(lanes % number, 16)
        tl.store(out_ptr + lanes, tl.load(x_ptr + wrapped))
    elif PROMISE == "rows that are loaded":
        rows = tl.max_contiguous(lanes % 3, 16)
        tl.load(x_ptr + rows[:, None] * 4 + tl.arange(0, 4)[None, :])
    elif PROMISE == "a place that is loaded":
        tl.load(x_ptr + tl.multiple_of(number, 4) + tl.arange(0, 4))
    elif PROMISE == "a true condition":
        tl.assume(number == 6)
    elif PROMISE == "a false condition":
        tl.assume(number == 7)
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes))


def copied(promise):
    def launch(x):
        out = torch.empty_like(x)
        promise_kernel[(1,)](x, out, 6, PROMISE=promise)
        return out

    return launch


def found(promise, layout="contiguous", strict=True):
    cases = [Case((Input((16,), layout=layout),))]
    return verify(copied(promise), torch.clone, cases, strict_promises=strict)


@pytest.mark.parametrize(
    "promise",
    [
        "every element a multiple",
        "the beginnings of runs are multiples",
        "addresses count bytes",
        "an allocation's address",
        "runs of four",
        "pairs of rows",
        "four alike",
        "a true condition",
    ],
)
def test_a_promise_that_holds_is_let_be(promise):
    assert found(promise).right, found(promise)


@pytest.mark.parametrize(
    ("promise", "says"),
    [
        ("one run begins elsewhere", "by tl.multiple_of that 7 is a multiple of 8"),
        ("a number", "by tl.multiple_of that 6 is a multiple of 4"),
        ("a loop's number", "by tl.multiple_of that 4 is a multiple of 8"),
        (
            "more than an allocation's address",
            "by tl.multiple_of that an address is a multiple of 512 bytes, "
            "and it lies 256 past one",
        ),
        (
            "runs of eight",
            "by tl.max_contiguous that lane 4 holds the neighbor of what lane 3 holds",
        ),
        ("columns", "lane 1 holds the neighbor of what lane 0 holds, and they hold"),
        ("eight alike", "lane 4 holds the same as lane 3, and they hold"),
        ("a false condition", "by tl.assume what is false"),
    ],
)
def test_a_false_promise_is_wrong_whatever_the_result(promise, says):
    (outcome,) = found(promise).outcomes
    assert outcome.verdict == "wrong" and outcome.problem.kind == "false promise"
    assert says in outcome.problem.text
    assert outcome.problem.text.endswith(": promise only what always holds.")
    assert outcome.reason.startswith(
        f"Line {outcome.problem.line.number} of test_promises.py:  tl."
    )


@pytest.mark.parametrize("promise", ["a number", "runs of eight", "columns"])
def test_a_false_promise_that_leads_no_access_elsewhere_is_a_note(promise):
    verified = found(promise, strict=False)
    assert verified.right and "promise only what always holds" in str(verified)


@pytest.mark.parametrize(
    "promise",
    ["neighbors that are loaded", "a place that is loaded", "eight alike", "a false condition"],
)
def test_a_false_promise_by_which_an_access_may_go_elsewhere_is_wrong(promise):
    (outcome,) = found(promise, strict=False).outcomes
    assert outcome.verdict == "wrong" and outcome.problem.kind == "false promise"


def test_a_promise_of_rows_that_a_block_is_not_loaded_along_does_no_harm():
    assert found("rows that are loaded", strict=False).right


def test_a_promise_about_addresses_is_false_where_the_tensor_begins_elsewhere():
    assert "16 bytes, and it lies 4 past one" in str(
        found("addresses count bytes", "offset by one element")
    )


def test_outside_verify_the_interpreter_goes_by_no_promise():
    with promises_held(lambda *_: None):
        pass
    x = torch.arange(16.0)
    assert torch.equal(copied("a number")(x), x)
