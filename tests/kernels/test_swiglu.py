"""SwiGLU of kernels/, as a caller sees it, in either mode."""

import pytest
import torch

from course import DEVICE
from course.benching.benchmarks import operation
from course.verifying.api import verify
from kernels.swiglu import swiglu
from tests.support.refusals import assert_each_is_refused

pytestmark = pytest.mark.gpu_too


def random(*shape):
    return torch.randn(shape, device=DEVICE)


def test_it_is_right_in_every_case():
    whole = operation("swiglu")
    result = verify(swiglu, whole.reference, whole.cases)
    assert result.right, result


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (2, 3, 70)])
def test_any_number_of_dimensions_and_any_strides(shape):
    gate, up = random(*shape), random(*shape)
    expected = torch.nn.functional.silu(gate) * up
    torch.testing.assert_close(swiglu(gate, up), expected)
    if gate.ndim > 1:
        torch.testing.assert_close(swiglu(gate.mT, up.mT), expected.mT)


def test_what_does_not_fit_is_refused_in_a_sentence():
    one, other = random(3), random(4)
    assert_each_is_refused(
        [swiglu],
        [
            (lambda: (one, other), ValueError, "gate is (3,) torch.float32"),
            (lambda: (one, one.half()), ValueError, "both must be the same"),
            (lambda: (one.double(), one.double()), ValueError, "takes float16, bfloat16 and"),
            (lambda: (one, 2.0), TypeError, "up"),
        ],
    )
