"""The small changes of a text: one of them undoes each usual slip, and none breaks it."""

import ast

import pytest

from course.exercises.judges.small_changes import small_changes

KERNEL = """@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(axis=0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_N)
    offsets = rows[:, None] * n_cols + cols[None, :]
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    top = tl.max(x, axis=1)
    power = tl.exp(x - top[:, None])
    total = tl.zeros([BLOCK_M], tl.float32)
    total += tl.sum(power, axis=1)
    out = tl.where(x > top[:, None] - 1.5, power / total[:, None], 0.0)  # "ß" has two bytes
    tl.store(out_ptr + offsets, out, mask=mask)
    tl.store(y_ptr + rows, tl.log(total) + top, mask=rows < n_rows)"""

SLIPS = [
    ("x - top[:, None]", "x + top[:, None]", "x + top[:, None]"),
    ("x - top[:, None]", "top[:, None] - x", "top[:, None] - x"),
    ("rows < n_rows)", "rows <= n_rows)", "rows <= n_rows"),
    ("rows < n_rows)", "rows < n_cols)", "rows < n_cols"),
    ("total += tl.sum", "total = tl.sum", "total = tl.sum(power, axis=1)"),
    ("tl.sum(power, axis=1)", "tl.sum(power, axis=0)", "tl.sum(power, axis=0)"),
    ("tl.max(x", "tl.min(x", "tl.min"),
    ("tl.exp(x", "tl.exp2(x", "tl.exp2"),
    ("rows[:, None] * n_cols", "rows[None, :] * n_cols", "rows[None, :]"),
    ("power / total[:, None], 0.0", "0.0, power / total[:, None]", ""),
    ("-float(\"inf\")", "float(\"inf\")", "float(\"inf\")"),
    ("program_id(axis=0)", "program_id(axis=1)", "tl.program_id(axis=1)"),
    ("power / total[:, None]", "total[:, None] / power", "total[:, None] / power"),
    ("x_ptr + offsets", "y_ptr + offsets", "y_ptr + offsets"),
    ("1.5", "-1.5", "-1.5"),
    ("tl.log(total) + top", "tl.log(total + top)", "tl.log(total + top)"),
    ("tl.exp(x - top[:, None])", "tl.exp(x) - top[:, None]", "tl.exp(x) - top[:, None]"),
    ("rows[:, None] * n_cols + cols[None, :]", "rows[:, None] + cols[None, :] * n_cols", ""),
    ("tl.sum(power, axis=1)", "tl.sum(tl.trans(power), axis=1)", "tl.trans(power)"),
    ("tl.arange(0, BLOCK_N)", "tl.arange(0, BLOCK_M)", "tl.arange(0, BLOCK_M)"),
    ("tl.log(total) + top", "tl.log(total) + 2 * top", "2 * top"),
    (".to(tl.float32)\n", ".to(tl.float16)\n", "tl.float16"),
    ("out, mask=mask)", "out)", "tl.store(out_ptr + offsets, out), which has no mask,"),
    ("rows[:, None] * n_cols + cols[None, :]", "rows[None, :] * n_cols + cols[:, None]", "rows"),
    ("1.5", "BLOCK_M", None),
    ("top[:, None] - 1.5", "top - 1.5", None),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "look_at"), SLIPS)
def test_a_slip_is_undone_by_one_of_them(right, wrong, look_at):
    assert right in KERNEL
    meant = ast.dump(ast.parse(KERNEL))
    text = KERNEL.replace(right, wrong)
    undone = [each for each in small_changes(text) if ast.dump(ast.parse(each.text)) == meant]
    if look_at is None:  # more than a small change
        assert not undone
        return
    line = next(
        n for n, each in enumerate(KERNEL.split("\n"), start=1) if right.strip("\n") in each
    )
    assert undone
    assert undone[0].line == line
    assert look_at in undone[0].look_at


def test_each_changes_the_text_in_its_line_and_the_likeliest_come_first():
    changes = small_changes(KERNEL)
    assert [each.rank for each in changes] == sorted(each.rank for each in changes)
    lines = KERNEL.split("\n")
    for each in changes:
        new = each.text.split("\n")
        different = [n for n, (a, b) in enumerate(zip(lines, new, strict=True), start=1) if a != b]
        assert each.line in different
        # What two stores store, or two lines that follow one another.
        assert len(different) == 1 or "tl.store" in each.look_at or each.rank == 2


@pytest.mark.parametrize(
    ("right", "wrong", "look_at"),
    [
        ("tile = x.load([row + i, col])", "tile = x.load([row, col + i])", "[row, col + i]"),
        ("tile = x.load([row, col + i])", "tile = x.load([row + i, col])", "[row + i, col]"),
        ("call(x, IS_CAUSAL, flag=False)", "call(x, False, flag=False)", "call(x, False, flag"),
        ("x = row\n    i += col\n    y = i", "i += col\n    x = row\n    y = i", "i += col"),
        ("y = max(i, -float(\"inf\"))", "y = max(i, -1e9)", "-1e9"),
        ("tl.store(x, row)\n    tl.store(x + 1, i)", "tl.store(x, i)\n    tl.store(x + 1, row)",
         "tl.store(x, i)"),
    ],
)  # fmt: skip
def test_what_stands_in_another_place_is_put_back(right, wrong, look_at):
    head = "def f(x, row, col, i, IS_CAUSAL):\n    "
    found = [each for each in small_changes(head + wrong) if each.text == head + right]
    assert found and found[0].look_at.startswith(look_at)


@pytest.mark.parametrize(
    "body",
    [
        "return x",
        "return x if x is not y and y not in (x,) else [*x, -y ** 2]",
        "pass",
        "x //= 2\n    x <<= 1; y = x @ x",
        "return (\n        x\n        - y  # x - y\n    )",
        "x, (y, z) = x\n    x[0] = y = z",
        "return f'{x + y}', lambda z: z < 1 < x",
    ],
)
def test_any_function_can_be_changed(body):
    changes = small_changes(f"def f(x, y=1):\n    {body}")
    assert all(ast.parse(each.text) for each in changes)
