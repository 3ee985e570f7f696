"""The transpose of kernels/, as a caller sees it, in either mode."""

import pytest
import torch

from course import DEVICE
from course.benching.benchmarks import operation
from course.verifying.api import verify
from kernels import transpose as module
from kernels.transpose import transpose, transpose_v1
from tests.support.refusals import assert_each_is_refused

pytestmark = pytest.mark.gpu_too

LAUNCHERS = [transpose_v1, transpose]


def random(*shape):
    return torch.randn(shape, device=DEVICE)


@pytest.mark.parametrize("name", ["transpose_v1", "transpose"])
def test_every_version_is_right_in_every_case(name):
    whole = operation("transpose")
    result = verify(whole.ladder[name], whole.reference, whole.cases)
    assert result.right, result


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(
    "shape", [(1, 1), (5, 0), (0, 5), (3, 70), (2, 5, 7), (2, 0, 3), (2, 3, 4, 5), (0, 3, 4)]
)
def test_any_number_of_dimensions(launcher, shape):
    x = random(*shape)
    out = launcher(x)
    assert out.shape == x.mT.shape
    assert out.is_contiguous()
    assert torch.equal(out, x.mT)


def test_strided_inputs_are_read_as_they_lie():
    x = random(6, 80, 90)
    for view in (x[:, ::2, 1:], x.mT, x[::2], x.permute(2, 0, 1), x[:1].expand(4, 80, 90)):
        assert torch.equal(transpose(view), view.mT)


def test_a_negative_bit_is_seen():
    x = random(3, 5)
    for launcher in LAUNCHERS:
        assert torch.equal(launcher(torch._neg_view(x)), -x.mT)


def test_more_matrices_than_a_grids_axis_takes(monkeypatch):
    monkeypatch.setattr(module, "GRID_LIMIT", 4)
    x = random(11, 3, 5)
    for launcher in LAUNCHERS:
        assert torch.equal(launcher(x), x.mT)


def test_more_columns_than_a_grids_axis_takes_are_a_sentence():
    x = torch.zeros(1, dtype=torch.int8, device=DEVICE).expand(1, 65_536 * 64)
    with pytest.raises(
        ValueError, match="4,194,304 columns are too many for blocks of 64; take a larger block_n"
    ):
        transpose(x)


REFUSALS = [
    (lambda: (random(3),), ValueError, "x has shape (3,); it must have two dimensions or more"),
    (lambda: (random(),), ValueError, "x has shape ()"),
    (lambda: (random(2, 2).cfloat(),), ValueError, "x is torch.complex64"),
    (lambda: ([[1.0]],), TypeError, "x is of type list, and must be a torch.Tensor"),
]


def test_bad_input_is_a_sentence():
    assert_each_is_refused(LAUNCHERS, REFUSALS)


@pytest.mark.gpu  # an interpreted kernel takes CPU tensors
def test_cpu_tensors_are_refused_on_a_gpu():
    x = (torch.rand(3, 3),)
    assert_each_is_refused(LAUNCHERS, [(lambda: x, ValueError, "the inputs are on cpu")])
