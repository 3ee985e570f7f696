"""The cross-entropy of kernels/ and its gradient, as a caller sees them, in either mode."""

import math
import re

import pytest
import torch
from torch.nn.functional import cross_entropy as by_torch

from course import DEVICE, MODE
from course.benching.benchmarks import operation
from course.verifying.api import verify
from kernels.cross_entropy import (
    DTYPES,
    IGNORE_INDEX,
    TARGET_DTYPES,
    cross_entropy,
    cross_entropy_backward,
    cross_entropy_operator,
    cross_entropy_v1,
    cross_entropy_v2,
    cross_entropy_v3,
)
from tests.support.devices import needs_free_gib
from tests.support.refusals import assert_each_is_refused

pytestmark = pytest.mark.gpu_too

LAUNCHERS = [cross_entropy_v1, cross_entropy_v2, cross_entropy_v3, cross_entropy]
WIDTHS = [1, 2, 7, 100, 781, 1025, 4096, 4097, 9001]
"""Up to and beyond one block, and two."""
TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 2e-6, torch.float64: 1e-13}


def random(*shape, dtype=torch.float32):
    return torch.randn(shape, device=DEVICE).mul(3).to(dtype)


def targets(*shape, columns):
    """A column for each row, but for the second row, which is ignored."""
    target = torch.randint(0, columns, shape, device=DEVICE)
    target.view(-1)[1:2] = IGNORE_INDEX
    return target


def exact(x, target, ignore_index=IGNORE_INDEX):
    """The losses in float64, by PyTorch."""
    rows, columns = x.double().reshape(-1, x.shape[-1]), target.long().reshape(-1)
    losses = by_torch(rows, columns, reduction="none", ignore_index=ignore_index)
    return losses.reshape(target.shape)


def exact_gradient(d_loss, x, target):
    """d_x in float64, by PyTorch."""
    x = x.detach().double().requires_grad_()
    return torch.autograd.grad(exact(x, target), x, d_loss.double())[0]


def assert_right(loss, expected):
    tolerance = 1e-12 if loss.dtype == torch.float64 else 2e-6
    torch.testing.assert_close(
        loss.double(), expected, rtol=tolerance, atol=tolerance, equal_nan=True
    )


@pytest.mark.parametrize("name", operation("cross_entropy").ladder)
def test_every_version_is_right_in_every_case(name):
    whole = operation("cross_entropy")
    # Many rows take the interpreter long, and are the GPU's.
    cases = [case for case in whole.cases if MODE.gpu or case.inputs[0].shape[0] <= 65]
    result = verify(whole.ladder[name], whole.reference, cases, absolute=whole.absolute)
    assert result.right, result


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_version_agrees_with_float64_at_any_width(launcher, dtype):
    for columns in WIDTHS:
        x, target = random(3, columns, dtype=dtype), targets(3, columns=columns)
        loss = launcher(x, target)
        assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        assert_right(loss, exact(x, target))


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_agree_with_float64_at_any_width(dtype):
    for columns in WIDTHS:
        x, target = random(3, columns, dtype=dtype).requires_grad_(), targets(3, columns=columns)
        loss = cross_entropy(x, target)
        d_loss = random(3, dtype=loss.dtype)
        (d_x,) = torch.autograd.grad(loss, x, d_loss)
        assert d_x.dtype == dtype
        tolerance = TOLERANCE[dtype]
        torch.testing.assert_close(
            d_x.double(), exact_gradient(d_loss, x, target), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("shape", [(7,), (1, 7), (0, 5), (2, 3, 70), (2, 3, 4, 5), (2, 0, 3)])
def test_any_number_of_dimensions(shape):
    x, target = random(*shape), targets(*shape[:-1], columns=shape[-1])
    for launcher in LAUNCHERS:
        assert_right(launcher(x, target), exact(x, target))


def test_any_strides_forwards_and_backwards():
    x = random(2, 3, 5)
    for view in (
        x.mT,
        x[::2],
        x[..., ::3],
        x[..., 1:],
        x.permute(2, 1, 0),
        x[:, :1].expand(2, 4, 5),
        x[:, 2],
        torch._neg_view(x),
    ):
        shape = view.shape[:-1]
        target = targets(*shape[::-1], columns=view.shape[-1]).permute(*reversed(range(len(shape))))
        leaf = view.detach().requires_grad_()
        loss = cross_entropy(leaf, target)
        assert_right(loss.detach(), exact(view, target))
        (d_x,) = torch.autograd.grad(loss.sum(), leaf)
        expected = exact_gradient(torch.ones(shape, device=DEVICE), view, target)
        torch.testing.assert_close(d_x.double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.alone
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_rows_further_apart_than_32_bits_count(launcher):
    needs_free_gib(5)
    # Only what is touched takes memory on a CPU.
    storage = torch.empty(2**31 + 32, dtype=torch.float16, device=DEVICE)
    x = storage.as_strided((3, 5), (2**30, 1))
    x.copy_(random(3, 5))
    target = torch.tensor([4, 0, 3], device=DEVICE)
    assert_right(launcher(x, target), exact(x, target))


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("columns", [37, 9001])
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_special_values_are_torchs(launcher, columns):
    x = random(7, columns)
    x[0] = -math.inf
    x[1] = math.inf
    x[2, 5] = math.inf
    x[3, 5] = math.nan
    x[4, : columns - 1] = -math.inf  # what comes first is -inf, for a long way
    x[5] = x[5].sign() * torch.finfo(torch.float32).max
    x[6, 0] = -math.inf
    target = torch.tensor([0, 0, 0, 0, columns - 1, 5, 0], device=DEVICE)
    expected = by_torch(x, target, reduction="none")
    torch.testing.assert_close(launcher(x, target), expected, equal_nan=True)


@pytest.mark.parametrize("dtype", TARGET_DTYPES)
def test_targets_of_any_integer_that_indexes(dtype):
    x, target = random(5, 9), targets(5, columns=9)
    for launcher in LAUNCHERS:
        assert_right(launcher(x, target.to(dtype)), exact(x, target))


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_row_that_is_ignored_has_no_loss_whatever_its_logits(launcher):
    x, target = random(3, 9), torch.tensor([0, 7, 8], device=DEVICE)
    x[1] = math.nan
    loss = launcher(x, target, ignore_index=7)
    assert loss[1] == 0
    assert_right(loss, exact(x, target, ignore_index=7))


def test_a_row_that_is_ignored_has_no_gradient_whatever_its_logits():
    x, target = random(3, 9), torch.tensor([0, 7, 8], device=DEVICE)
    x[1] = math.nan
    x.requires_grad_()
    cross_entropy(x, target, ignore_index=7).sum().backward()
    assert torch.equal(x.grad[1], torch.zeros(9, device=DEVICE))
    assert x.grad[0].isfinite().all()


@pytest.mark.parametrize("wrong", [-1, 9, 2**40, -(2**40)])
def test_a_target_that_is_no_column_gives_nan_and_reads_nothing_else(wrong):
    x, target = random(3, 9).requires_grad_(), torch.tensor([0, wrong, 8], device=DEVICE)
    for launcher in LAUNCHERS:
        loss = launcher(x, target)
        assert loss.isnan().tolist() == [False, True, False]
    loss.sum().backward()
    assert x.grad.isnan().all(dim=1).tolist() == [False, True, False]


def test_gradients_have_the_same_bits_each_time():
    x, target = random(9, 5001).requires_grad_(), targets(9, columns=5001)
    first = torch.autograd.grad(cross_entropy(x, target).sum(), x)[0]
    for _ in range(3):
        assert torch.equal(torch.autograd.grad(cross_entropy(x, target).sum(), x)[0], first)


def test_gradcheck():
    for shape in ((3, 5), (2, 2, 4), (4,)):
        x = random(*shape).double().requires_grad_()
        target = targets(*shape[:-1], columns=shape[-1])
        assert torch.autograd.gradcheck(lambda x, target=target: cross_entropy(x, target), (x,))


def test_a_gradient_of_the_gradient_is_refused_and_not_wrong():
    x, target = random(3, 5).requires_grad_(), targets(3, columns=5)
    (d_x,) = torch.autograd.grad(cross_entropy(x, target).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        d_x.sum().backward()


# An interpreted kernel reads memory, and cannot be traced with tensors that have none.
OPCHECKS = ("test_schema", "test_autograd_registration")
TRACED = ("test_faketensor", "test_aot_dispatch_dynamic") if MODE.gpu else ()


def test_the_operators_pass_opcheck():
    x, target = random(3, 5), targets(3, columns=5)
    _, lse = cross_entropy_operator(x, target, IGNORE_INDEX)
    for operator, args in (
        (cross_entropy_operator, (x.clone().requires_grad_(), target, IGNORE_INDEX)),
        (cross_entropy_backward, (random(3), x, target, lse, IGNORE_INDEX)),
    ):
        results = torch.library.opcheck(operator, args, test_utils=(*OPCHECKS, *TRACED))
        assert set(results.values()) == {"SUCCESS"}


REFUSALS = [
    (lambda: (random(), targets(columns=3)), ValueError,
     "x has shape () and target (); the target must have the shape of x without its last"),
    (lambda: (random(3, 4), targets(4, columns=3)), ValueError,
     "x has shape (3, 4) and target (4,)"),
    (lambda: (random(3, 4), targets(3, columns=4).to("meta")), ValueError, "target on meta"),
    (lambda: (random(3, 4).int(), targets(3, columns=4)), ValueError,
     "x is torch.int32; this kernel takes"),
    (lambda: (random(3, 4), random(3)), ValueError,
     "target is torch.float32, and must be int32 or int64"),
    (lambda: ([[1.0]], targets(1, columns=1)), TypeError,
     "x is of type list, and must be a torch.Tensor"),
    (lambda: (random(3, 4), [0, 1, 2]), TypeError,
     "target is of type list, and must be a torch.Tensor"),
    (lambda: (random(1).expand(2**30 + 1), targets(columns=4)), ValueError,
     "1,073,741,825 columns are more than the 1,073,741,824"),
    (lambda: (random(3, 4), targets(3, columns=4), 1.5), TypeError,
     "ignore_index is of type float, and must be an int"),
]  # fmt: skip


def test_bad_input_is_a_sentence():
    assert_each_is_refused(LAUNCHERS, REFUSALS)


def test_bad_input_to_the_gradient_is_a_sentence():
    x, target, d_loss = random(3, 4), targets(3, columns=4), random(3)
    refusals = [
        (lambda: (random(4), x, target, d_loss, 0), ValueError, "d_loss has shape (4,)"),
        (lambda: (d_loss, x, target, d_loss.half(), 0), ValueError,
         "lse has shape (3,) and is torch.float16"),
    ]  # fmt: skip
    assert_each_is_refused([cross_entropy_backward], refusals)


@pytest.mark.gpu  # an interpreted kernel takes CPU tensors
def test_cpu_tensors_are_refused_on_a_gpu():
    with pytest.raises(ValueError, match=re.escape("cross_entropy: the inputs are on cpu")):
        cross_entropy(torch.rand(3, 4), torch.zeros(3, dtype=torch.int64))
