"""verify takes every type that kernels take: truth values, and numbers of 8 bits."""

import pytest
import torch
import triton
import triton.language as tl

from course import DEVICE, MODE
from course.errors import CourseError
from course.verifying.api import verify
from course.verifying.inputs import Case, Input

pytestmark = pytest.mark.gpu_too

TRUTHS, EIGHTHS = Case((Input((300,), torch.bool),)), torch.float8_e4m3fn


@triton.jit
def negated_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, ~tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


@triton.jit
def quantized_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x.to(out_ptr.dtype.element_ty), mask=offsets < n)


def launched(kernel, dtype, left_out=0):
    def launch(x):
        out = torch.empty(x.shape, dtype=dtype, device=x.device)
        n = x.numel() - left_out
        kernel[(triton.cdiv(n, 64),)](x, out, n, BLOCK=64)
        return out

    return launch


def test_truth_values_are_inputs_and_results():
    assert verify(launched(negated_kernel, torch.bool), torch.logical_not, [TRUTHS]).right


def test_a_truth_value_that_is_never_written_is_told():
    result = verify(launched(negated_kernel, torch.bool, left_out=50), torch.logical_not, [TRUTHS])
    assert "got nothing: it was never written. Wrong: 50 of 300." in str(result)


@pytest.mark.parametrize("dtype", [EIGHTHS, torch.float8_e5m2])
def test_numbers_of_8_bits_are_rounded_to_the_nearest(dtype):
    if MODE.gpu and torch.cuda.get_device_capability(DEVICE) < (8, 9):
        pytest.skip("needs float8: it takes compute capability 8.9")
    cases = [Case((Input((3000,), given),)) for given in (torch.float32, torch.float16)]
    result = verify(launched(quantized_kernel, dtype), lambda x: x.to(dtype), cases)
    assert result.right, result
    wrong = verify(launched(quantized_kernel, dtype), lambda x: (1.2 * x).to(dtype), cases)
    assert not wrong.right
    back = launched(quantized_kernel, torch.float32)
    assert verify(back, lambda x: x.float(), [Case((Input((3000,), dtype),))]).right


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Input(5), r"a tuple of sizes, as \(5, 3\) or \(5,\); it is 5"),
        (lambda: Input((-5,)), r"a tuple of sizes, as \(5, 3\) or \(5,\); it is \(-5,\)"),
        (lambda: Input((5,), torch.complex64), "as torch.float32; it is torch.complex64"),
        (lambda: Input((5,), "float32"), "as torch.float32; it is float32"),
        (lambda: Input((5,), layout="odd"), "one of 'contiguous', .*; it is 'odd'"),
        (lambda: Input((5,), values="odd"), "one of 'normal', .*; it is 'odd'"),
        (lambda: Case(Input((5,))), r"with a comma where it is one, as Case\(\(Input\("),
        (lambda: Case(((5,),)), "Case takes a tuple of inputs"),
    ],
    ids=["a number", "below 0", "complex", "a text", "layout", "values", "no tuple", "shapes"],
)
def test_what_no_tensor_can_be_made_of_is_named(make, says):
    with pytest.raises(CourseError, match=says):
        make()


def test_a_reference_with_two_results_is_named():
    with pytest.raises(CourseError, match="The reference returned a tuple, and must return one"):
        verify(torch.neg, lambda x: (x, -x), [Case((Input((5,)),))])


@triton.jit
def scaled_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n).to(tl.float32)
    tl.store(out_ptr + offsets, x * 3, mask=offsets < n)


@pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: on a GPU, float8 takes sm_89 or later")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_reference_may_compute_with_float8_though_pytorch_refuses_to(dtype):
    case = Case((Input((300,), EIGHTHS),))
    assert verify(launched(scaled_kernel, dtype), lambda x: x * 3.0, [case]).right
    assert verify(launched(scaled_kernel, dtype), lambda x: x * 3.01, [case]).wrong


@triton.jit
def product_kernel(a_ptr, b_ptr, out_ptr, PRECISION: tl.constexpr):
    rows = tl.arange(0, 32)
    offsets = rows[:, None] * 32 + rows[None, :]
    a, b = tl.load(a_ptr + offsets), tl.load(b_ptr + offsets)
    tl.store(out_ptr + offsets, tl.dot(a, b, input_precision=PRECISION))


def product(precision, scale=1.0):
    def launch(a, b):
        out = torch.empty_like(a)
        product_kernel[(1,)](a, b, out, precision)
        return out * scale

    return launch


@pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: a GPU multiplies in TF32 itself")
def test_a_product_that_a_gpu_computes_in_tf32_is_left_to_it():
    cases = [Case((Input((32, 32)),) * 2)]
    left = verify(product("tf32"), torch.matmul, cases, absolute=1e-5)
    assert not left.right and not left.wrong
    assert "a GPU's tl.dot takes it as TF32" in str(left)
    assert verify(product("ieee"), torch.matmul, cases, absolute=1e-5).right
    assert verify(product("tf32", scale=1.5), torch.matmul, cases, absolute=1e-5).wrong


@pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: a GPU multiplies in TF32 itself")
def test_a_product_that_tf32_does_not_spoil_is_judged():
    whole = Case((Input((32, 32), torch.int32, values="small"),) * 2)
    floats = lambda function: lambda a, b: function(a.float(), b.float())  # noqa: E731
    assert verify(floats(product("tf32")), floats(torch.matmul), [whole]).right
    roomy = [Case((Input((32, 32)),) * 2)]
    assert verify(product("tf32"), torch.matmul, roomy, absolute=0.1).right
