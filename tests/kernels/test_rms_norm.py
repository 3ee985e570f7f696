"""The RMSNorm of kernels/ and its gradient, as a caller sees them, in either mode."""

import itertools
import math
import re

import pytest
import torch
from torch.nn.functional import rms_norm as by_torch

from course import DEVICE, MODE, lower
from kernels import rms_norm as module
from kernels.rms_norm import (
    EPS,
    PLANS,
    rms_norm,
    rms_norm_operator,
    rms_norm_v1,
    rms_norm_v2,
    rms_norm_v3,
    rms_norm_v4,
    rms_norm_v5,
)
from kernels.rms_norm_backward import (
    BACKWARD_PLANS,
    rms_norm_backward,
    rms_norm_backward_v1,
    rms_norm_backward_v2,
)
from kernels.rms_norm_launch import DTYPES
from tests.support.devices import needs_free_gib
from tests.support.refusals import assert_each_is_refused

pytestmark = pytest.mark.gpu_too

LAUNCHERS = [rms_norm_v1, rms_norm_v2, rms_norm_v3, rms_norm_v4, rms_norm_v5, rms_norm]
BACKWARD = [rms_norm_backward_v1, rms_norm_backward_v2, rms_norm_backward]
WIDTHS = [1, 2, 7, 100, 781, 1024, 1025]
WIDE = [4097, 8193, 16_385]
"""One more than a block of one version or another, or than a plan's widest row."""
TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 2e-6, torch.float64: 1e-13}


def random(*shape, dtype=torch.float32):
    return torch.randn(shape, device=DEVICE).to(dtype)


def assert_right(out, expected):
    """out is what float64 gives, within a rounding of out's dtype."""
    tolerance = TOLERANCE[out.dtype]
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance / 10)


def as_read(eps):
    """What a kernel reads of it: a float32."""
    return torch.tensor(eps, dtype=torch.float32).item()


def exact(x, weight, eps=EPS):
    """The result in float64, by PyTorch."""
    return by_torch(x.double(), x.shape[-1:], weight.double(), as_read(eps))


def exact_gradients(d_out, x, weight):
    """d_x, d_weight in float64, by PyTorch."""
    x, weight = (each.detach().double().requires_grad_() for each in (x, weight))
    return torch.autograd.grad(exact(x, weight), (x, weight), d_out.double())


def rstd_of(x):
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    return (x.double().square().mean(-1) + as_read(EPS)).rsqrt().to(dtype)


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_version_agrees_with_float64_at_any_width(launcher, dtype):
    for columns in WIDTHS:
        x, weight = random(5, columns, dtype=dtype), random(columns, dtype=dtype)
        out = launcher(x, weight)
        assert out.dtype == dtype
        assert_right(out, exact(x, weight))


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("columns", WIDE)
def test_rows_wider_than_a_block(launcher, columns):
    x, weight = random(2, columns), random(columns)
    assert_right(launcher(x, weight), exact(x, weight))


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(
    "shape", [(1,), (7,), (0,), (0, 5), (5, 0), (2, 3, 70), (2, 3, 4, 5), (2, 0, 3)]
)
def test_any_number_of_dimensions(launcher, shape):
    x, weight = random(*shape), random(shape[-1])
    out = launcher(x, weight)
    assert out.shape == x.shape
    assert_right(out, exact(x, weight))


def views(x):
    """Views of a tensor of three dimensions, by what is special about their strides."""
    return {
        "transposed": x.mT,
        "every second matrix": x[::2],
        "every third column": x[..., ::3],
        "from the second column on": x[..., 1:],
        "dimensions in reverse": x.permute(2, 1, 0),
        "one row for all": x[:, :1].expand(len(x), 7, x.shape[2]),
        "one row per matrix": x[:, 3],
        "negative bit": torch._neg_view(x),
    }


@pytest.mark.parametrize("name", views(torch.empty(4, 6, 5)))
def test_any_strides_forwards_and_backwards(name):
    x = views(random(4, 6, 5))[name]
    d_out = random(*x.shape[:-1], 2 * x.shape[-1])[..., : x.shape[-1]]  # other strides than x
    weight = random(2 * x.shape[-1])[::2]
    for launcher in LAUNCHERS:
        assert_right(launcher(x, weight), exact(x, weight))
    for launcher in BACKWARD:
        for ours, theirs in zip(
            launcher(d_out, x, weight, rstd_of(x)), exact_gradients(d_out, x, weight), strict=True
        ):
            torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.alone
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_rows_further_apart_than_32_bits_count(launcher):
    needs_free_gib(5)
    # Only what is touched takes memory on a CPU.
    storage = torch.empty(2**31 + 32, dtype=torch.float16, device=DEVICE)
    x = storage.as_strided((3, 5), (2**30, 1))
    x.copy_(random(3, 5))
    weight = random(5, dtype=torch.float16)
    assert_right(launcher(x, weight), exact(x, weight))


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_special_values_follow_the_formula(launcher):
    x, weight = random(5, 37), random(37)
    x[0] = 0
    x[1, 5] = math.nan
    x[2, 5] = math.inf
    x[3, 5] = -math.inf
    # Step by step: PyTorch's fused kernel for GPUs gives NaN for a whole row with an infinity.
    rstd = (x.double().square().mean(-1, keepdim=True) + EPS).rsqrt()
    torch.testing.assert_close(
        launcher(x, weight).double(), x * rstd * weight, equal_nan=True, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_eps_is_added_to_the_mean_square(launcher):
    x, weight = random(3, 10), random(10)
    for eps in (0, 1, 0.5):
        assert_right(launcher(x, weight, eps), exact(x, weight, eps))


def test_a_rows_result_does_not_depend_on_the_other_rows():
    x, weight = random(9, 100), random(100)
    assert torch.equal(rms_norm(x, weight)[4:5], rms_norm(x[4:5], weight))


@pytest.mark.parametrize("launcher", BACKWARD)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_agree_with_float64_at_any_width(launcher, dtype):
    for columns in WIDTHS:
        x, d_out = random(7, columns, dtype=dtype), random(7, columns, dtype=dtype)
        weight = random(columns, dtype=dtype)
        rstd = rstd_of(x)
        gradients = launcher(d_out, x, weight, rstd)
        # What cancels is as exact as the numbers that it is the difference of.
        terms = max(1.0, float((d_out.double() * weight.double() * rstd[:, None]).abs().max()))
        for ours, theirs in zip(gradients, exact_gradients(d_out, x, weight), strict=True):
            assert ours.dtype == dtype
            tolerance = TOLERANCE[dtype]
            largest = max(terms, float(theirs.abs().max()))
            torch.testing.assert_close(
                ours.double(), theirs, rtol=tolerance, atol=tolerance * largest
            )


@pytest.mark.parametrize("launcher", BACKWARD)
@pytest.mark.parametrize("columns", WIDE)
def test_gradients_of_rows_wider_than_a_block(launcher, columns):
    x, d_out, weight = random(2, columns), random(2, columns), random(columns)
    gradients = launcher(d_out, x, weight, rstd_of(x))
    for ours, theirs in zip(gradients, exact_gradients(d_out, x, weight), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("launcher", "settings"),
    # A tile of 32 is two rows here, so that there are many blocks.
    [
        (rms_norm_backward_v1, {}),
        (rms_norm_backward_v2, {"tile": 32}),
        (rms_norm_backward_v2, {"tile": 32, "depth": 2}),
    ],
)
@pytest.mark.parametrize("parts", [1, 2, 3, 40])
def test_the_weights_gradient_counts_each_row_once(launcher, settings, parts):
    for rows in (1, 31, 33, 100):
        # Small whole numbers, whose sums are exact in any order.
        x, d_out = (torch.randint(-3, 4, (rows, 9), device=DEVICE).float() for _ in range(2))
        weight, ones = random(9), torch.ones(rows, device=DEVICE)
        d_weight = launcher(d_out, x, weight, ones, parts=parts, **settings)[1]
        assert torch.equal(d_weight, (d_out * x).sum(0))


@pytest.mark.parametrize("launcher", BACKWARD)
def test_gradients_have_the_same_bits_each_time(launcher):
    x, d_out, weight = random(70, 50), random(70, 50), random(50)
    first = launcher(d_out, x, weight, rstd_of(x))
    for _ in range(3):
        for one, other in zip(launcher(d_out, x, weight, rstd_of(x)), first, strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("launcher", BACKWARD)
@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (2, 0, 3)])
def test_where_there_is_nothing_the_weights_gradient_is_zero(launcher, shape):
    x, weight = random(*shape), random(shape[-1])
    d_x, d_weight = launcher(random(*shape), x, weight, rstd_of(x))
    assert d_x.shape == x.shape
    assert torch.equal(d_weight, torch.zeros_like(weight))


def test_autograd_finds_the_gradient():
    x, weight = random(2, 3, 20).requires_grad_(), random(20).requires_grad_()
    d_out = random(2, 3, 20)
    gradients = torch.autograd.grad(rms_norm(x, weight), (x, weight), d_out)
    for ours, theirs in zip(gradients, exact_gradients(d_out, x, weight), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)


def test_a_sum_sends_back_a_gradient_without_strides():
    x, weight = random(3, 20).requires_grad_(), random(20)
    (d_x,) = torch.autograd.grad(rms_norm(x, weight).sum(), x)
    expected = exact_gradients(torch.ones_like(x), x, weight)[0]
    torch.testing.assert_close(d_x.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("needed", [(True, True), (True, False), (False, True)])
def test_gradcheck(needed):
    for shape in ((3, 5), (2, 2, 4), (4,)):
        inputs = (random(*shape).double(), random(shape[-1]).double())
        for tensor, wants in zip(inputs, needed, strict=True):
            tensor.requires_grad_(wants)
        assert torch.autograd.gradcheck(rms_norm, inputs)


def test_a_gradient_of_the_gradient_is_refused_and_not_wrong():
    x, weight = random(3, 5).requires_grad_(), random(5)
    (d_x,) = torch.autograd.grad(rms_norm(x, weight).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        d_x.sum().backward()


# An interpreted kernel reads memory, and cannot be traced with tensors that have none.
OPCHECKS = ("test_schema", "test_autograd_registration")
TRACED = ("test_faketensor", "test_aot_dispatch_dynamic") if MODE.gpu else ()


# Before PyTorch 2.15, what a kernel writes cannot be read from it where 16 divides a number that it
# is given: then all its tensors count as changed.
MULTIPLES = [20_000] if torch.__version__ >= "2.15" else []


@pytest.mark.parametrize("columns", [5, 20_001, *MULTIPLES])
def test_the_operators_pass_opcheck(columns):
    x, weight = random(3, columns).requires_grad_(), random(columns).requires_grad_()
    d_out = random(3, columns)
    for operator, args in (
        (rms_norm_operator, (x, weight, EPS)),
        (rms_norm_backward, (d_out, x.detach(), weight.detach(), rstd_of(x.detach()))),
    ):
        results = torch.library.opcheck(operator, args, test_utils=(*OPCHECKS, *TRACED))
        assert set(results.values()) == {"SUCCESS"}


@pytest.mark.gpu
def test_compile_takes_the_operator_in_forwards_and_backwards():
    # 16 does not divide the width: see MULTIPLES.
    x, weight = random(30, 500).requires_grad_(), random(500).requires_grad_()
    d_out = random(30, 500)
    run = torch.compile(lambda x, weight: 2 * rms_norm(x, weight), fullgraph=True)
    ours = torch.autograd.grad(run(x, weight), (x, weight), d_out)
    for one, other in zip(ours, exact_gradients(2 * d_out, x, weight), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("plans", [PLANS, BACKWARD_PLANS])
@pytest.mark.parametrize("dtype", DTYPES)
def test_plans_are_in_order_and_have_an_end(plans, dtype):
    widest = [plan[0] for plan in plans[dtype.itemsize]]
    assert widest == sorted(widest)
    assert widest[-1] == math.inf


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [1, 512, 513, 8192, 8193, 32_768, 32_769])
def test_the_plan_is_what_the_operator_launches(columns, dtype, monkeypatch):
    launched = []
    monkeypatch.setattr(
        module, "_forward", lambda version, x, *_, **__: launched.append(version) or (x + 0, x + 0)
    )
    rms_norm(random(1, columns, dtype=dtype), random(columns, dtype=dtype))
    plans = PLANS[dtype.itemsize]
    ends = [0, *(plan[0] for plan in plans)]
    (expected,) = (
        plan[1]
        for (low, high), plan in zip(itertools.pairwise(ends), plans, strict=True)
        if low < columns <= high
    )
    assert launched == [expected]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_no_plan_spills_registers(dtype):
    for most, version, settings in PLANS[dtype.itemsize]:
        columns = 2**16 if most == math.inf else most
        x = torch.empty(64, columns, dtype=dtype, device="meta")
        launch = version(x, **settings)
        compiled = lower(
            launch.kernel, x, x[0], x, torch.empty(64, device="meta"), n_cols=columns,
            stride_xm=columns, eps=EPS, **launch.arguments, target="sm_90",
        )  # fmt: skip
        assert compiled.resources.spill_bytes == 0, columns


def test_a_row_of_1000_float32_is_loaded_by_whole_vectors_once_the_kernel_is_told_of_8():
    x = torch.empty(64, 1000, device="meta")
    for version, wide in ((module._v2, 0), (module._v5, 4)):
        launch = version(x)
        counts = lower(
            launch.kernel, x, x[0], x, torch.empty(64, device="meta"), n_cols=1000,
            stride_xm=1000, eps=EPS, **launch.arguments, target="sm_90",
        ).counts["ptx"]  # fmt: skip
        assert counts["vectorized global loads"] == wide


REFUSALS = [
    (lambda: (random(), random(1)), ValueError,
     "x has shape () and weight (1,); the weight must have one dimension"),
    (lambda: (random(3, 4), random(3)), ValueError,
     "x has shape (3, 4) and weight (3,); the weight must have one dimension"),
    (lambda: (random(3, 4), random(1, 4)), ValueError, "x has shape (3, 4) and weight (1, 4)"),
    (lambda: (random(3, 4), random(4).half()), ValueError,
     "and weight torch.float16 on"),
    (lambda: (random(3, 4), torch.empty(4, device="meta")), ValueError, "torch.float32 on meta"),
    (lambda: (random(3, 4).int(), random(4).int()), ValueError,
     "x is torch.int32; this kernel takes"),
    (lambda: ([[1.0]], random(1)), TypeError, "x is of type list, and must be a torch.Tensor"),
    (lambda: (random(3, 4), None), TypeError,
     "weight is of type NoneType, and must be a torch.Tensor"),
    (lambda: (random(3, 4).to_sparse(), random(4)), ValueError,
     "x has layout torch.sparse_coo, and must be dense"),
    (lambda: (random(1).expand(2**30 + 1),) * 2, ValueError,
     "1,073,741,825 columns are more than the 1,073,741,824"),
    (lambda: (random(3, 4), random(4), "1e-6"), TypeError,
     "eps is of type str, and must be a number"),
    (lambda: (random(3, 4), random(4), True), TypeError,
     "eps is of type bool, and must be a number"),
    (lambda: (random(3, 4), random(4), -1.0), ValueError,
     "eps is -1.0, and must be finite and 0 or more"),
    (lambda: (random(3, 4), random(4), math.nan), ValueError, "eps is nan, and must be finite"),
]  # fmt: skip


def test_bad_input_is_a_sentence():
    assert_each_is_refused(LAUNCHERS, REFUSALS)


REFUSED_BACKWARDS = [
    (lambda: (random(3, 5), random(3, 4), random(4), random(3)), ValueError,
     "x has shape (3, 4) and d_out has shape (3, 5); both must have the same shape"),
    (lambda: (random(3, 4).half(), random(3, 4), random(4), random(3)), ValueError,
     "d_out has dtype torch.float16; both must have the same dtype"),
    (lambda: (random(3, 4), random(3, 4), random(4), random(4)), ValueError,
     "rstd has shape (4,) and is torch.float32 on"),
    (lambda: (random(3, 4).half(), random(3, 4).half(), random(4).half(), random(3).half()),
     ValueError, "it must have shape (3,) and be torch.float32 on"),
]  # fmt: skip


def test_bad_input_to_the_gradient_is_a_sentence():
    assert_each_is_refused(BACKWARD, REFUSED_BACKWARDS)


@pytest.mark.gpu  # an interpreted kernel takes CPU tensors
def test_cpu_tensors_are_refused_on_a_gpu():
    with pytest.raises(ValueError, match=re.escape("rms_norm: the inputs are on cpu")):
        rms_norm(torch.rand(3, 4), torch.rand(4))
