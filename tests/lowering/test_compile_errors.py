"""Why a kernel does not compile, in a sentence with its line; and how a compiler ends."""

import os
import re
import subprocess
import sys

import pytest
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

from course import lower
from course.isolate.function_source import Definition
from course.lowering import worker
from course.lowering.api import LowerError, lower_file
from course.lowering.compile_errors import clearer, disk_error, first_sentence
from tests.support import lower_kernels as kernels
from tests.support.lower_kernels import ADD, line_of
from tests.support.processes import python_path


@gluon.jit
def gluon_kernel(x_ptr):
    of_32_threads: gluon.language.constexpr = gluon.language.BlockedLayout([1], [32], [4], [0])
    places = x_ptr + gluon.language.arange(0, 64, layout=of_32_threads)
    gluon.language.store(places, gluon.language.load(places))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("'warpgroup_mma_accumulator' object has no attribute 'dtype'.", "is still running"),
        ("Loop carried variable s changed type, was <class 'x.warpgroup_mma_accumulator'>.",
         "warpgroup_mma_wait(…, deps=[s]) returns, after the product"),
        ("Loop carried variable s changed type, was int32.", "changed type, was int32."),
        ("'warpgroup_mma_accumulator' object is not iterable.", "write deps=[acc]"),
    ],
)  # fmt: skip
def test_a_product_that_nobody_has_waited_for_is_named(words, says):
    assert says in first_sentence(words)


@triton.jit
def with_bias_kernel(x_ptr, bias_ptr, out_ptr):
    offsets = tl.arange(0, 64)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) + tl.load(bias_ptr + offsets))


@triton.jit
def growing_kernel(x_ptr, out_ptr, n):
    rows, cols, total = tl.arange(0, 64)[:, None], tl.arange(0, 32)[None, :], 0
    for start in range(0, n):  # noqa: PIE808
        total += tl.load(x_ptr + start + 32 * rows + cols)
    tl.store(out_ptr + 32 * rows + cols, total)


@triton.jit
def pythons_max_kernel(x_ptr, out_ptr):
    tl.store(out_ptr, max(tl.load(x_ptr + tl.arange(0, 64))))


@triton.jit
def one_before_a_block_kernel(x_ptr, out_ptr, n):
    most = -float("inf")
    for start in range(0, n):  # noqa: PIE808
        most = tl.maximum(most, tl.load(x_ptr + 64 * start + tl.arange(0, 64)))
    tl.store(out_ptr + tl.arange(0, 64), most)


@triton.jit
def rows_alone_kernel(x_ptr, out_ptr):
    tile = tl.arange(0, 64)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(out_ptr + tl.arange(0, 64), tl.max(tl.load(x_ptr + tile), axis=0))


@triton.jit
def halved_kernel(x_ptr, out_ptr):
    tl.store(out_ptr + tl.arange(0, 64), tl.load(x_ptr + tl.arange(0, 64)) // 2)


@triton.jit
def turned_product_kernel(x_ptr, y_ptr, out_ptr):
    x = tl.load(x_ptr + tl.arange(0, 64)[:, None] * 32 + tl.arange(0, 32)[None, :])
    tl.store(out_ptr, tl.sum(tl.dot(x, x, 0)))


@pytest.mark.parametrize(
    ("kernel", "signature", "says"),
    [
        (pythons_max_kernel, "*fp32 *fp32", "max compares two blocks, lane by lane: tl.max("),
        (one_before_a_block_kernel, "*fp32 *fp32 i32",
         "most is one fp32 before the loop and fp32 [64] in it: begin with a block, by tl.zeros"),
        (rows_alone_kernel, "*fp32 *fp32", "perhaps it must be reduced along the other axis"),
        (halved_kernel, "*fp32 *fp32", "takes integers, and this is fp32: divide by /"),
        (turned_product_kernel, "*fp16 *fp16 *fp32", "the columns of the first must be as many"),
    ],
)  # fmt: skip
def test_a_slip_that_the_compiler_words_otherwise_is_told_with_its_mend(kernel, signature, says):
    with pytest.raises(LowerError, match=re.escape(says)):
        lower(kernel, *signature.split(), target="sm_90")


def test_none_is_named_where_a_kernel_takes_it_for_a_tensor():
    with pytest.raises(LowerError, match="bias_ptr is None in this launch: compute with it only"):
        lower(with_bias_kernel, "*fp32", None, "*fp32", target="sm_90")


def test_a_type_that_changes_in_a_loop_is_named_with_the_sizes_of_the_block():
    with pytest.raises(
        LowerError, match=r"total is one int32 before the loop and fp32 \[64, 32\] in"
    ):
        lower(growing_kernel, "*fp32", "*fp32", "i32", target="sm_90")


@gluon.jit
def buffer_as_block_kernel(x_ptr):
    shared: gluon.language.constexpr = gluon.language.SwizzledSharedLayout(1, 1, 1, [0])
    buffer = gluon.language.allocate_shared_memory(gluon.language.float32, [64], shared)
    gluon.language.store(x_ptr, buffer)


@gluon.jit
def buffer_in_brackets_kernel(x_ptr):
    shared: gluon.language.constexpr = gluon.language.SwizzledSharedLayout(1, 1, 1, [1, 0])
    buffers = gluon.language.allocate_shared_memory(gluon.language.float32, [2, 64], shared)
    gluon.language.store(x_ptr, buffers[0])


@gluon.jit
def two_barriers_kernel(x_ptr):
    layout: gluon.language.constexpr = mbarrier.MBarrierLayout()
    barriers = gluon.language.allocate_shared_memory(gluon.language.int64, [2, 1], layout)
    mbarrier.init(barriers, count=1)


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (buffer_as_block_kernel, "read it by buffer.load(layout) first"),
        (buffer_in_brackets_kernel, "write buffers.index(i) for number i"),
        (two_barriers_kernel, "this takes one barrier, and was given several"),
    ],
)
def test_shared_memory_that_is_used_like_values_is_told_how_it_is_used(kernel, says):
    with pytest.raises(LowerError) as raised:
        lower(kernel, "*fp32:16", target="sm_90")
    assert says in str(raised.value)


def test_what_the_compiler_writes_beside_its_exception_is_said():
    with pytest.raises(LowerError, match=r"It does not compile: .*layout") as raised:
        lower(gluon_kernel, "*fp32:16", target="gfx942")
    assert "threads per warp" in raised.value.details


@gluon.jit
def no_layout_kernel(x_ptr):
    i = gluon.language.arange(0, 64, layout=gluon.language.AutoLayout())
    gluon.language.store(x_ptr + i, 1.0)


@gluon.jit
def two_layouts_kernel(x_ptr):
    narrow: gluon.language.constexpr = gluon.language.BlockedLayout([1], [32], [4], [0])
    wide: gluon.language.constexpr = gluon.language.BlockedLayout([2], [32], [4], [0])
    zeros = gluon.language.full([64], 0.0, gluon.language.float32)
    gluon.language.store(x_ptr + gluon.language.arange(0, 64, layout=narrow), zeros)
    gluon.language.store(x_ptr + gluon.language.arange(0, 64, layout=wide), zeros)


@gluon.jit
def constant_layout_kernel(x_ptr):
    layout = gluon.language.BlockedLayout([1], [32], [4], [0])
    gluon.language.store(x_ptr + gluon.language.arange(0, 64, layout=layout), 1.0)


@gluon.jit
def two_warps_kernel(x_ptr):
    layout: gluon.language.constexpr = gluon.language.BlockedLayout([1], [32], [2], [0])
    gluon.language.store(x_ptr + gluon.language.arange(0, 64, layout=layout), 1.0)


@triton.jit
def root_kernel(x_ptr):
    tl.store(x_ptr, tl.sqrt(2))


@pytest.mark.parametrize(
    ("kernel", "says", "line"),
    [
        (no_layout_kernel, "meets no block whose layout is given", r"i = .*AutoLayout"),
        (two_layouts_kernel, "meets blocks of two layouts", r"zeros = "),
        (constant_layout_kernel, "write `layout: gl.constexpr = …`", r"layout = .*Blocked"),
        (two_warps_kernel, "its warps must multiply to those that run it", r"gluon.*store"),
        (root_kernel, "tl.sqrt takes floating-point numbers", r"tl.store\(x_ptr, tl.sqrt"),
    ],
)
def test_what_a_pass_refuses_is_said_with_its_line(kernel, says, line):
    with pytest.raises(LowerError, match=rf"{says}.*\nLine \d+ of {__file__}:  {line}"):
        lower(kernel, "*fp32", target="sm_90")


def test_a_line_of_a_cell_is_taken_from_its_text():
    cell = Definition("kernel", "def kernel(x_ptr):\n    y = odd(x_ptr)", "<cell 5>", 3)
    details = "/triton/odd.py:7:9: error: it is odd.\n<cell 5>:4:9: note: called from\n"
    assert clearer(VAGUE, details, [cell]) == (
        "It does not compile: it is odd.\nLine 4 of its cell:  y = odd(x_ptr)"
    )


@triton.jit
def odd_instruction(x):
    return tl.inline_asm_elementwise(
        "odd.u32 $0, $1;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1
    )


@triton.jit
def odd_instruction_kernel(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 128))
    tl.store(x_ptr + tl.arange(0, 128), odd_instruction(x))


def test_what_ptxas_refuses_is_said_with_its_line():
    says = r"odd_instruction does not compile: ptxas says: .*\n"
    with pytest.raises(LowerError, match=says + r"Line \d+ of .*:  return tl.inline_asm") as raised:
        lower(odd_instruction_kernel, "*i32")
    line = odd_instruction.fn.__code__.co_firstlineno + 2
    assert f"Line {line} of {__file__}" in str(raised.value)


VAGUE = "It does not compile: PassManager::run failed."


@pytest.mark.parametrize(
    ("details", "says"),
    [
        (
            "nowhere.py:6:9: error: it has 32 threads.\nnote",
            "It does not compile: it has 32 threads.",
        ),
        ("Pipeline failed while executing [`PlanCTA` on", "the compiler's pass PlanCTA failed."),
        ("", VAGUE),
    ],
)
def test_a_failed_pass_is_named(details, says):
    assert clearer(VAGUE, details).endswith(says)


WITH_A_LINE = [
    (kernels.wrong_type_kernel, "*fp16:16", "wrong_type_kernel does not compile", "tl.dot(x, x)"),
    (kernels.unknown_name_kernel, "*fp32", "nothing_of_that_name is not", "nothing_of_that_name)"),
    (kernels.odd_shape_kernel, "*fp32", "100 is no power of two", "tl.arange(0, 100)"),
    (kernels.torch_type_kernel, "*fp32", "write tl.float16", "to(torch.float16)"),
    (kernels.max_of_two_kernel, "*fp32", "where Triton needs a constant", "tl.max(x, tl.sum("),
    (
        kernels.constant_while_kernel,
        "*fp32",
        "is a constant, so the loop never ends",
        "while n >= 0:",
    ),
    (kernels.library_kernel, "*fp32", "library_kernel does not compile", "tl.sum(x, axis=3)"),
]


@pytest.mark.parametrize(("kernel", "argument", "says", "line"), WITH_A_LINE)
def test_what_does_not_compile_is_said_with_its_line(kernel, argument, says, line):
    with pytest.raises(LowerError, match=says) as raised:
        lower(kernel, argument)
    assert f"Line {line_of(line)} of {kernels.__file__}:" in str(raised.value)
    assert raised.value.details
    assert len(str(raised.value)) < 400


MISSING = "missing a required argument|missing 1 required positional argument"
NO_TYPE = r"There is no type 'fp33' in '\*fp33'"
ODD_BLOCK = ("tensordesc<fp16[3]>", "*fp16", 64)
WITHOUT_A_LINE = [
    (kernels.assembly_kernel, ["*i32"], "ptxas says"),
    (kernels.plain_call_kernel, ["*fp32"], "calls plain, which .* put @triton.jit above it"),
    (kernels.numpy_call_kernel, ["*fp32"], "np.exp is not Triton's: write tl.exp"),
    (kernels.torch_call_kernel, ["*fp32"], "torch.sin is not Triton's: write tl.sin"),
    (kernels.recursive_kernel, ["*fp32:16", "i32"], "calls itself, and a kernel cannot"),
    (kernels.add_kernel, ADD, MISSING),
    (kernels.add_kernel, [*ADD, 1024, 5], "it takes 5 arguments and was given 6"),
    (kernels.add_kernel, ["*fp33", *ADD[1:], 1024], NO_TYPE),
    (kernels.descriptor_kernel, ODD_BLOCK, "must have powers of two"),
    (kernels.add_kernel, ["float", *ADD[1:], 1024], "'float' is no type of an argument"),
]


@pytest.mark.parametrize(("kernel", "arguments", "says"), WITHOUT_A_LINE)
def test_what_does_not_compile_is_said(kernel, arguments, says):
    with pytest.raises(LowerError, match=says) as raised:
        lower(kernel, *arguments)
    assert len(str(raised.value)) < 400


IN_A_CHILD = """from course.isolate.pool import call
from tests.support import child_tasks
print(call(child_tasks.give_back, 1, kind='compile').value)
"""


def test_a_triton_py_in_the_current_folder_does_no_harm(tmp_path):
    (tmp_path / "triton.py").write_text("raise ImportError('not this one')\n")
    environ = {**os.environ, "PYTHONPATH": python_path()}
    command = [sys.executable, "-P", "-c", IN_A_CHILD]
    ended = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert ended.stdout == "1\n", ended.stderr


def test_a_compiler_that_does_not_end_is_ended(monkeypatch):
    monkeypatch.setattr(worker.compile_kernel, "timeout_s", 2)
    with pytest.raises(
        LowerError, match="was stopped after 2 s of computing: large blocks take it long"
    ):
        lower(kernels.endless_kernel, "*fp32")
    assert lower(kernels.add_kernel, *ADD, BLOCK_SIZE=64)


def test_a_file_that_does_not_end_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(worker.compile_kernel, "timeout_s", 2)
    (tmp_path / "endless.py").write_text("while True:\n    pass\n")
    says = r"was stopped after 2 s of computing; before it compiles, it executes .*endless\.py\.$"
    with pytest.raises(LowerError, match=says):
        lower_file(tmp_path / "endless.py", "kernel", ["*fp32"])


def test_a_library_that_triton_lacks_is_no_matter_of_the_disk():
    problem = "libLLVM.so: cannot open shared object file"
    says = f"Triton lacks a part of its own ({problem}): install it anew"
    assert str(disk_error(OSError(problem))).startswith(says)


def test_a_full_disk_is_said(monkeypatch, tmp_path):
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(tmp_path)]
    mounted = subprocess.run(command, capture_output=True)
    if mounted.returncode:
        pytest.skip("needs root: only it may make a small disk")
    try:
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        no_room = "could not write its files in .*: No space left on device"
        with pytest.raises(LowerError, match=no_room):
            lower(kernels.add_kernel, *ADD, BLOCK_SIZE=1024)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_notebook_shows_the_sentence_and_not_the_traceback():
    with pytest.raises(LowerError) as raised:
        lower(kernels.odd_shape_kernel, "*fp32")
    shown = raised.value._render_traceback_()
    assert shown[0].startswith("LowerError: odd_shape_kernel does not compile")
    assert "sys.last_value.details" in shown[-1]
