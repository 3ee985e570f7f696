"""What the compilers of NVIDIA's and AMD's GPUs say last, and what Triton leaves unsaid."""

import pytest
import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma

from course import cost, lower
from course.errors import CourseError
from course.lowering.compile_errors import LowerError

ANNOTATED: tl.constexpr = 2.0


@triton.jit
def annotated_kernel(x_ptr):
    tl.store(x_ptr, ANNOTATED)


@triton.jit
def asserting_kernel(x_ptr, N: tl.constexpr):
    tl.static_assert(N == 3)
    tl.store(x_ptr, 1.0)


@triton.jit
def halved_store_kernel(x_ptr):
    tl.store(x_ptr, 1.0) / 2


@triton.jit
def relu_kernel(x_ptr):
    tl.store(x_ptr, tl.relu(tl.load(x_ptr)))


@triton.jit
def transpose_kernel(x_ptr):
    tl.store(x_ptr + tl.arange(0, 8), tl.sum(tl.transpose(tl.zeros([8, 8], tl.float32), 0, 1), 0))


@triton.jit
def abs_kernel(x_ptr):
    tl.store(x_ptr, abs(tl.load(x_ptr)))


@triton.jit
def relaxed_kernel(x_ptr):
    tl.atomic_add(x_ptr, 1.0, "relaxed")


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (relu_kernel, r"tl has no relu: write tl\.maximum\(x, 0\.0\)"),
        (transpose_kernel, r"tl has no transpose: tl\.trans\(x\) turns a block"),
        (abs_kernel, r"Python's abs is not known to a kernel"),
        (
            relaxed_kernel,
            r'by its name, as sem="relaxed" .* tl\.atomic_add takes a mask or a block',
        ),
    ],
)
def test_what_other_libraries_have_is_named_as_tl_has_it(kernel, says):
    with pytest.raises(LowerError, match=says):
        lower(kernel, "*fp32", target="sm_90")


@triton.jit
def product_kernel(x_ptr, out_ptr):
    places = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)
    x = tl.load(x_ptr + places)
    tl.store(out_ptr + places, tl.dot(x, x))


@triton.jit
def ptx_kernel(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 32))
    y = tl.inline_asm_elementwise("cvt.rn.tf32.f32 $0, $1;", "=r,r", [x], tl.int32, True, 1)
    tl.store(x_ptr + tl.arange(0, 32), y.to(tl.float32, bitcast=True))


@gluon.jit
def hopper_kernel(x_ptr):
    shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    a = gl.allocate_shared_memory(gl.float16, [64, 64], shared)
    product = warpgroup_mma(a, a, gl.zeros([64, 64], gl.float32, layout))
    gl.store(x_ptr + gl.arange(0, 64, gl.SliceLayout(1, layout)), gl.sum(product, 1))


@pytest.mark.parametrize(
    ("kernel", "constants", "target", "says"),
    [
        (
            annotated_kernel,
            {},
            "sm_90",
            r"write ANNOTATED = tl\.constexpr\(…\), since an annotation alone, .*\nLine \d+ of",
        ),
        (
            asserting_kernel,
            {"N": 4},
            "sm_90",
            r"the condition of this assertion is false\.\nLine \d+ .*tl\.static_assert\(N == 3\)",
        ),
        (
            halved_store_kernel,
            {},
            "sm_90",
            r"tl\.store gives nothing back, so there is nothing to compute with in .* / 2\.",
        ),
        (
            ptx_kernel,
            {},
            "gfx942",
            r"ptx_kernel does not compile: AMD's assembler refuses `cvt\.rn\.tf32\.f32 .*;` .*"
            r"PTX is NVIDIA's\.\nLine \d+ of .*inline_asm_elementwise",
        ),
        (
            hopper_kernel,
            {},
            "sm_100",
            r"killed by SIGABRT\. It said: LLVM ERROR: Cannot select: intrinsic .*wgmma",
        ),
    ],
)
def test_a_compilers_reason_is_said(kernel, constants, target, says):
    with pytest.raises(LowerError, match=says):
        lower(kernel, "*fp32", **constants, target=target)


def test_an_assertion_without_a_text_is_said_where_a_launch_is_followed():
    with pytest.raises(CourseError, match="AssertionError: the condition of this assertion is fal"):
        cost(asserting_kernel, 1, torch.zeros(1), 4)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("*i16", r"tl\.dot multiplies int8, .* and no int16: convert both operands"),
        (
            "*fp8e4nv",
            r"does not compute in fp8e4nv; of types with 8 bits it has 'fp8e4b15', 'fp8e5'",
        ),
    ],
)
def test_a_product_of_a_type_that_has_none_says_which_have(given, says):
    with pytest.raises(LowerError, match=says):
        lower(product_kernel, given, "*fp32", target="sm_80")
