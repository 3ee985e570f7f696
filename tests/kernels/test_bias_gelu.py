"""The fused bias and GELU of kernels/, as a caller sees it, in either mode."""

import pytest
import torch
from torch.nn.functional import gelu

from course import DEVICE
from course.benching.benchmarks import operation
from course.verifying.api import verify
from course.verifying.inputs import Case, Input, matrices
from kernels.bias_gelu import bias_gelu, bias_gelu_v1
from tests.support.devices import needs_free_gib
from tests.support.refusals import assert_each_is_refused

pytestmark = pytest.mark.gpu_too

LAUNCHERS = [bias_gelu_v1, bias_gelu]


def random(*shape):
    return torch.randn(shape, device=DEVICE)


def test_the_fused_kernel_is_right_in_every_case():
    whole = operation("bias_gelu")
    result = verify(bias_gelu, whole.reference, whole.cases, absolute=whole.absolute)
    assert result.right, result


def test_two_kernels_round_twice_in_float16_as_pytorch_does_and_that_is_said():
    def result(cases):
        return verify(bias_gelu_v1, lambda x, b: gelu(x + b), cases, absolute=1e-6)

    assert result(matrices(dtypes=(torch.float32,), with_row=True)).right
    halves = result([Case((Input((63, 65), torch.float16), Input((65,), torch.float16)), seed=2)])
    assert halves.right, halves
    assert "rounded to float16 more than once: so are PyTorch's own" in str(halves)


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(
    "shape", [(1,), (7,), (0,), (3, 5), (0, 5), (5, 0), (2, 3, 70), (2, 3, 4, 5)]
)
def test_any_number_of_dimensions(launcher, shape):
    x, bias = random(*shape), random(shape[-1])
    out = launcher(x, bias)
    assert out.shape == x.shape
    torch.testing.assert_close(out, gelu(x + bias))


def test_strided_inputs():
    x, bias = random(40, 30), random(120)
    for view in (x.T, x[::2], x[:, ::3], x[:, 1:]):
        part = bias[: 3 * view.shape[1] : 3]
        torch.testing.assert_close(bias_gelu(view, part), gelu(view + part))


@pytest.mark.alone
def test_columns_further_apart_than_32_bits_count():
    needs_free_gib(5)
    storage = torch.empty(
        2**31 + 16, dtype=torch.float16, device=DEVICE
    )  # only what is touched takes memory on a CPU
    x = storage.as_strided((2, 3), (1, 2**30))
    x.copy_(random(2, 3))
    bias = random(3).half()
    torch.testing.assert_close(bias_gelu(x, bias), gelu(x.float() + bias.float()).half())


def test_a_negative_bit_is_seen():
    x, bias = random(3, 5), random(5)
    for launcher in LAUNCHERS:
        torch.testing.assert_close(
            launcher(torch._neg_view(x), torch._neg_view(bias)), gelu(-x - bias)
        )


def test_more_columns_than_a_grids_axis_takes_are_a_sentence():
    x = torch.zeros(1, device=DEVICE).expand(65_536 * 1024)
    with pytest.raises(
        ValueError,
        match="67,108,864 columns are too many for blocks of 1024; take a larger block_n",
    ):
        bias_gelu(x, x)


REFUSALS = [
    (lambda: (random(3, 4), random(3)), ValueError, "x has shape (3, 4) and bias (3,)"),
    (lambda: (random(3, 4), random(1, 4)), ValueError, "the bias must have one dimension"),
    (lambda: (random(), random()), ValueError, "x has shape ()"),
    (lambda: (random(3, 4), random(4).half()), ValueError, "bias torch.float16 on"),
    (lambda: (random(3, 4).double(), random(4).double()), ValueError,
     "x is torch.float64; this kernel takes"),
    (lambda: (random(3, 4).int(), random(4).int()), ValueError,
     "x is torch.int32; this kernel takes"),
    (lambda: (random(3, 4), None), TypeError, "bias is of type NoneType"),
    (lambda: (random(3, 4).to_sparse(), random(4)), ValueError,
     "x has layout torch.sparse_coo, and must be dense"),
]  # fmt: skip


def test_bad_input_is_a_sentence():
    assert_each_is_refused(LAUNCHERS, REFUSALS)


@pytest.mark.gpu  # an interpreted kernel takes CPU tensors
def test_cpu_tensors_are_refused_on_a_gpu():
    x = (torch.rand(3, 3), torch.rand(3))
    assert_each_is_refused(LAUNCHERS, [(lambda: x, ValueError, "the inputs are on cpu")])
