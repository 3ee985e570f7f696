"""The vector add of kernels/, as a caller sees it, in either mode."""

import pytest
import torch

from course import DEVICE
from course.benching.benchmarks import operation
from course.verifying.api import verify
from kernels.vector_add import DTYPES, add, add_v1, add_v2
from tests.support.refusals import assert_each_is_refused

pytestmark = pytest.mark.gpu_too

LAUNCHERS = [add_v1, add_v2, add]


def random(*shape, dtype=torch.float32):
    return torch.randn(shape, device=DEVICE).mul(50).to(dtype)


@pytest.mark.parametrize("name", ["add_v1", "add_v2", "add"])
def test_every_version_is_right_in_every_case(name):
    vector_add = operation("vector_add")
    result = verify(vector_add.ladder[name], vector_add.reference, vector_add.cases)
    assert result.right, result


def test_the_first_tutorials_size_and_difference():
    torch.manual_seed(0)
    x, y = torch.rand(98_432, device=DEVICE), torch.rand(98_432, device=DEVICE)
    assert torch.max(torch.abs(x + y - add(x, y))).item() == 0.0


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (5, 7), (2, 3, 4, 5)])
def test_any_shape(launcher, shape):
    x, y = random(*shape), random(*shape)
    out = launcher(x, y)
    assert out.shape == x.shape
    assert torch.equal(out, x + y)


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != torch.bfloat16])
def test_any_dtype(dtype):
    x, y = random(300, dtype=dtype), random(300, dtype=dtype)
    assert torch.equal(add(x, y), x + y)


def test_strided_and_transposed_inputs():
    x, y = random(60, 40), random(40, 60)
    assert torch.equal(add(x.T, y), x.T + y)
    assert torch.equal(add(x[::2, ::3], x[1::2, ::3]), x[::2, ::3] + x[1::2, ::3])
    assert torch.equal(add(x[:1].expand(60, 40), x), x[:1] + x)


def test_a_negative_bit_is_seen():
    x, y = random(30), random(30)
    assert torch.equal(add(torch._neg_view(x), y), y - x)


def test_other_block_sizes_and_warps():
    x, y = random(1000), random(1000)
    for block_size, num_warps in ((32, 1), (256, 2), (4096, 8)):
        assert torch.equal(add(x, y, block_size=block_size, num_warps=num_warps), x + y)


REFUSALS = [
    (lambda: (random(3), random(4)), ValueError,
     "x has shape (3,) and y has shape (4,); both must have the same shape"),
    (lambda: (random(3), random(3, 1)), ValueError, "x has shape (3,) and y has shape (3, 1)"),
    (lambda: (random(3), random(3).half()), ValueError,
     "x has dtype torch.float32 and y has dtype torch.float16"),
    (lambda: (random(3), random(3).to("meta")), ValueError,
     "y has device meta; both must have the same device"),
    (lambda: (random(3), [1.0]), TypeError, "y is of type list, and must be a torch.Tensor"),
    (lambda: (2.0, random(3)), TypeError, "x is of type float, and must be a torch.Tensor"),
    (lambda: (random(3).cfloat(),) * 2, ValueError, "the inputs are torch.complex64"),
    (lambda: (random(3) > 0,) * 2, ValueError, "the inputs are torch.bool"),
]  # fmt: skip


def test_bad_input_is_a_sentence():
    assert_each_is_refused(LAUNCHERS, REFUSALS)


def test_more_elements_than_32_bits_count_are_refused_before_any_copy():
    x = torch.zeros(1, dtype=torch.int8, device=DEVICE).expand(2**31)
    words = "2,147,483,648 elements are more than v1 and v2 can count in 32 bits; use add"
    assert_each_is_refused([add_v1, add_v2], [(lambda: (x, x), ValueError, words)])
