"""Slips that show in a kernel's text are named with their lines."""

import textwrap

import pytest

from course.isolate.function_source import Definition
from course.verifying.text_slips import advice_on


def advice(body):
    text = "@triton.jit\ndef a_kernel(x_ptr, stride, m, n):\n" + textwrap.indent(body, "    ")
    return list(advice_on((Definition("a_kernel", text, "<cell of a_kernel>", 10),)))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("mask = rows < m & cols < n",
         "compares rows with (m & cols), and that with n: put each comparison in parentheses."),
        ("stride = tl.multiple_of(stride, 4)", "A promise of the parameter stride is lost"),
        ("tl.max_contiguous(x_ptr, 4)", "A promise of the parameter x_ptr is lost"),
        ("high = tl.max(row, tl.max(x, axis=0))", "for two blocks, lane by lane, take tl.maximum."),
        ("least = tl.min(m, row)", "for two blocks, lane by lane, take tl.minimum."),
        ("high = tl.where(1.0, 0.0, row > m)", "first: write tl.where(row > m, 1.0, 0.0)."),
        ("tl.multiple_of(row * stride, 4)", "What tl.multiple_of returns is thrown away"),
    ],
)  # fmt: skip
def test_a_slip_is_named_with_its_line(line, says):
    ((_, (where, sentence)),) = advice(f"row = tl.program_id(axis=0)\n{line}")
    assert where == f"Line 13 of your cell:  {line}"
    assert says in sentence


@pytest.mark.parametrize(
    "line",
    [
        "mask = (rows < m) & (cols < n)",
        "mask = 0 < rows < n",
        "start = tl.multiple_of(row * stride, 4)",
        "tl.multiple_of(start, 4)",  # it is kept with what computes start
        "tl.assume(stride > 0)",
        "largest = tl.max(row, 0)",
        "largest = tl.max(row, n)",  # n may be a constant
        "largest = tl.maximum(row, m)",
        "largest = max(row, m)",
        "high = tl.where(row > m, 1.0, row > n)",
    ],
)
def test_what_works_is_not_named(line):
    assert advice(line) == []


def test_a_plain_function_is_not_looked_at():
    text = "def launcher(x, stride):\n    return multiple_of(stride, 4)"
    assert list(advice_on((Definition("launcher", text, "a.py", 1),))) == []
