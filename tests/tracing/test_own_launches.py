"""A launch of a cell's own in CPU mode runs as the tools run it, and fails in their words."""

import re
import statistics
import sys
import time
from types import SimpleNamespace

import pytest
import torch
import triton
import triton.language as tl
from triton import InterpreterError
from triton.runtime import interpreter

from course import MODE, own_launches
from course.isolate.commands import run_source
from course.tracing.own_launches import OwnLaunchError
from tests.support import gap_kernels as kernels
from tests.support import processes
from tests.support.processes import ROOT
from tests.triton_internals.test_interpreter_gaps import LACKING, RUN, floats

pytestmark = pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: launches are compiled otherwise")


@triton.jit
def and_kernel(out_ptr, m, n):
    rows, cols = tl.arange(0, 4), tl.arange(0, 4)
    mask = (rows[:, None] < m) and (cols[None, :] < n)
    tl.store(out_ptr + rows[:, None] * n + cols[None, :], 1.0, mask=mask)


def test_and_joins_the_conditions_of_a_mask():
    out = torch.zeros(6, 3)
    and_kernel[(1,)](out, 2, 3)
    assert out.sum(dim=1).tolist() == [3, 3, 0, 0, 0, 0]


@pytest.mark.parametrize("name", RUN)
def test_what_the_tools_make_run_runs(name):
    kernel, more, reference = RUN[name]
    out = kernels.launcher(kernel, *more)(floats())
    torch.testing.assert_close(out, reference(floats()))


@pytest.mark.parametrize("grid", [[1], lambda arguments: [1, 1]])
def test_a_kernel_in_a_function_and_a_grid_that_is_a_list(grid):
    out = torch.empty(64)
    kernels.inner_kernel[grid](floats(), out)
    torch.testing.assert_close(out, floats().exp())


@triton.jit
def to_8_bits_kernel(x_ptr, out_ptr):
    offsets = tl.arange(0, 64)
    x = tl.load(x_ptr + offsets).to(tl.float8e5)
    tl.store(out_ptr + offsets, x.to(tl.float32))


def test_numbers_of_8_bits_are_rounded_as_pytorch_does():
    x, out = floats(), torch.empty(64)
    to_8_bits_kernel[(1,)](x, out)
    assert torch.equal(out, x.to(torch.float8_e5m2).float())


@triton.jit
def one_or_none_kernel(out_ptr, n):
    tl.store(out_ptr + tl.arange(0, 4), 1.0, mask=tl.program_id(0) < n)


def test_the_condition_of_a_number_is_a_mask():
    out = torch.zeros(4)
    one_or_none_kernel[(1,)](out, 0)
    assert not out.any()
    one_or_none_kernel[(1,)](out, 1)
    assert out.all()


@triton.jit
def if_kernel(out_ptr, n):
    offsets = tl.arange(0, 4)
    if offsets < n:
        tl.store(out_ptr + offsets, 1.0)


@triton.jit
def assigned_kernel(out_ptr):
    x = tl.zeros((4,), dtype=tl.float32)
    x[0] = 1.0
    tl.store(out_ptr + tl.arange(0, 4), x)


@triton.jit
def far_kernel(out_ptr, distance):
    tl.store(out_ptr, tl.load(out_ptr + distance))


REFUSED = {
    "an `if` on a block": (if_kernel, (2,), "if offsets < n:", "tl.where"),
    "an assignment by index": (assigned_kernel, (), "x[0] = 1.0", "not assigned by index"),
    "a read far outside": (far_kernel, (10**12,), "tl.load", "none of the kernel's arguments"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_tools_refuse_is_refused(name):
    kernel, more, line, words = REFUSED[name]
    out = torch.zeros(4)
    with pytest.raises(OwnLaunchError) as refused:
        kernel[(1,)](out, *more)
    sentence, line_text = str(refused.value).split("\n")
    assert line_text.startswith("Line ") and line in line_text and words in sentence
    assert refused.value._render_traceback_() == [f"OwnLaunchError: {refused.value}"]
    assert not out.any()


def test_a_grid_that_is_a_number_is_refused_in_the_launchers_line():
    with pytest.raises(OwnLaunchError) as refused:
        if_kernel[8](torch.zeros(4), 2)
    sentence, line_text = str(refused.value).split("\n")
    assert "if_kernel[8](torch" in line_text and "must be a tuple" in sentence


@pytest.mark.parametrize("what", LACKING)
def test_what_the_interpreter_lacks_is_named(what):
    with pytest.raises(OwnLaunchError, match=f"cannot run {what}, but a GPU can"):
        kernels.launcher(LACKING[what])(floats())


@triton.jit
def raising_kernel(out_ptr):
    raise RuntimeError("of its own")


def test_an_error_of_the_kernels_own_is_tritons():
    with pytest.raises(InterpreterError, match="of its own") as raised:
        raising_kernel[(1,)](torch.zeros(1))
    assert type(raised.value) is InterpreterError


def test_a_write_within_the_storage_of_a_view_is_let_be():
    whole = torch.zeros(8)
    one_or_none_kernel[(1,)](whole[2:4], 1)
    assert whole.tolist() == [0, 0, 1, 1, 1, 1, 0, 0]


@triton.jit
def address_kernel(address):
    pointer = address.to(tl.pointer_type(tl.float32))
    tl.store(pointer, 1.0)


def test_an_address_among_the_arguments_is_followed():
    out = torch.zeros(1)
    address_kernel[(1,)](out.data_ptr())
    assert out.item() == 1


def test_a_masked_lane_without_other_holds_0_as_on_a_gpu():
    out = torch.empty(1)
    kernels.unmasked_sum_kernel[(1,)](torch.ones(64), out, 40)
    assert out.item() == 40


def test_triton_is_as_before_after_a_launch():
    before = dict(vars(tl)), dict(vars(interpreter)), dict(vars(kernels))
    kernels.launcher(kernels.library_kernel)(floats())
    assert before == (dict(vars(tl)), dict(vars(interpreter)), dict(vars(kernels)))


# Kernels come before any other name of the course is used, and one is tuned.
FIRST = """
import {first}
import {second}
import torch, triton, triton.language as tl

@triton.autotune([triton.Config({{"BLOCK": 4}}), triton.Config({{"BLOCK": 8}})], ["n"])
@triton.jit
def kernel(out_ptr, m, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, 1.0, mask=offsets >= m and offsets < n)

assert not [name for name in sys.modules if name.startswith("course.tracing")]
out = torch.zeros(8)
try:
    kernel.fn(out, 2, 3, 8)
except triton.InterpreterError as error:
    assert "write kernel[(programs,)]" in str(error), error
kernel[(1,)](out, 2, 3)
print(out.tolist())
"""
RIGHT = [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(("first", "second"), [("course", "triton"), ("triton", "course")])
def test_it_holds_before_any_tool_was_used_and_whatever_was_imported_first(tmp_path, first, second):
    file = tmp_path / "first.py"
    file.write_text("import sys\n" + FIRST.format(first=first, second=second))
    environ = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "COURSE_MODE": "cpu"}
    environ |= {"PATH": "/usr/bin:/bin", "TRITON_INTERPRET": "1"}
    ended = processes.run(sys.executable, str(file), cwd=None, env=environ)
    assert ended.stdout.strip() == str(RIGHT), ended.stderr


def test_where_kernels_are_compiled_triton_is_left_alone(monkeypatch):
    monkeypatch.setenv("COURSE_CHILD", "compile")
    ended = run_source(
        "import course\nfrom triton.runtime.interpreter import InterpretedFunction\n"
        "print(InterpretedFunction.run.__module__)"
    )
    assert ended.stdout.strip() == "triton.runtime.interpreter", ended.stderr


@triton.jit
def scale_kernel(x_ptr, out_ptr, n):
    offsets = tl.program_id(0) * 256 + tl.arange(0, 256)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, 2 * x + 1, mask=mask)


def test_a_launch_takes_no_longer_than_tritons_own():
    own_run = interpreter.InterpretedFunction.run.__wrapped__
    x, out = torch.randn(4096), torch.empty(4096)

    def launch(run) -> float:
        start = time.process_time()
        run(scale_kernel, x, out, 4096, grid=(16,), warmup=False)
        return time.process_time() - start

    pairs = [(launch(interpreter.InterpretedFunction.run), launch(own_run)) for _ in range(9)]
    mended, stock = map(statistics.median, zip(*pairs, strict=True))
    assert mended < 1.5 * stock


@triton.jit
def returns_kernel(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 4))
    return 2 * x


def test_a_kernel_that_returns_a_value_is_refused_with_the_line():
    with pytest.raises(OwnLaunchError) as raised:
        returns_kernel[(1,)](floats())
    assert "tl.store\n" in str(raised.value)
    assert re.search(r"Line \d+ of test_own_launches.py:  return 2 \* x", str(raised.value))


@triton.jit
def strided_kernel(x_ptr, BLOCK_SIZE: tl.constexpr):
    offsets = tl.arange(0, BLOCK_SIZE)
    tl.load(x_ptr + 1000 * offsets, mask=offsets < 3)


@triton.jit
def misspelt_kernel(x_ptr):
    tl.store(x_ptr + ofsets, 1.0)  # noqa: F821  that is the slip


@pytest.mark.parametrize(
    ("launch", "says"),
    [
        (
            lambda: strided_kernel[(1,)](floats(), BLOCK_SIZE=4),
            "element 1,000 of x_ptr, which has 64.",
        ),
        (lambda: strided_kernel[(1,)](floats()), "strided_kernel lacks 'BLOCK_SIZE'"),
        (lambda: misspelt_kernel[(1,)](floats()), "the name ofsets is not defined"),
        (lambda: strided_kernel[(1,)](floats().numpy(), BLOCK_SIZE=4), "torch.from_numpy"),
    ],
)
def test_what_is_told_of_a_slip_says_what_to_write(launch, says):
    with pytest.raises(OwnLaunchError) as raised:
        launch()
    assert says in str(raised.value)


def test_an_operator_wraps_what_is_interpreted_with_a_pytorch_that_refuses_to():
    def refuse(kernel):
        raise RuntimeError("wrap_triton only works on functions annotated with triton.jit")

    library = SimpleNamespace(wrap_triton=refuse)
    own_launches._wrap_what_is_interpreted(library)
    tuned = triton.autotune([triton.Config({"BLOCK_SIZE": 64})], key=[])(and_kernel)
    assert library.wrap_triton(and_kernel) is and_kernel
    assert library.wrap_triton(tuned) is tuned
    with pytest.raises(RuntimeError, match="wrap_triton only works"):
        library.wrap_triton(print)
