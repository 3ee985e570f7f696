"""The softmax of kernels/, as a caller sees it, in either mode."""

import math

import pytest
import torch

from course import DEVICE, MODE, lower
from course.benching.benchmarks import operation
from course.verifying.api import verify
from kernels import softmax as module
from kernels import softmax_tuned as tuned
from kernels.device import CPU_MODE
from kernels.softmax import softmax
from kernels.softmax_launch import DTYPES
from kernels.softmax_tuned import PLANS, softmax_plan
from tests.support.devices import needs_free_gib
from tests.support.refusals import assert_each_is_refused

pytestmark = pytest.mark.gpu_too

LADDER = operation("softmax").ladder
LAUNCHERS = list(LADDER.values())


def random(*shape):
    return torch.randn(shape, device=DEVICE)


@pytest.mark.parametrize("name", LADDER)
def test_every_version_is_right_in_every_case(name):
    whole = operation("softmax")
    # Many rows take the interpreter long, and are the GPU's.
    cases = [case for case in whole.cases if MODE.gpu or case.inputs[0].shape[0] <= 65]
    result = verify(LADDER[name], whole.reference, cases, absolute=whole.absolute)
    assert result.right, result


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(
    "shape", [(1,), (7,), (0,), (3, 5), (0, 5), (5, 0), (2, 3, 70), (2, 3, 4, 5), (2, 0, 3)]
)
def test_any_number_of_dimensions(launcher, shape):
    x = random(*shape)
    out = launcher(x)
    assert out.shape == x.shape
    torch.testing.assert_close(out, torch.softmax(x, -1))


@pytest.mark.parametrize("columns", [1, 100, 781, 1000, 5001, 16_384, 20_001, 131_073])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_every_width_is_right_and_rows_sum_to_one(columns, dtype):
    x = random(3, columns).to(dtype)
    out = softmax(x).double()
    torch.testing.assert_close(
        out, torch.softmax(x.double(), -1), rtol=1e-6 if dtype == torch.float32 else 1e-3, atol=1e-7
    )
    torch.testing.assert_close(
        out.sum(-1),
        torch.ones_like(out[:, 0]),
        rtol=0,
        atol=1e-5 if dtype == torch.float32 else 5e-3,
    )


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("columns", [37, 9001])
def test_special_values_are_torchs(launcher, columns):
    x = random(7, columns)
    x[0] = -math.inf
    x[1] = math.inf
    x[2, 5] = math.inf
    x[3, 5] = math.nan
    x[4, : columns - 1] = -math.inf  # what comes first is -inf, for a long way
    x[5] = x[5].sign() * torch.finfo(torch.float32).max
    out = launcher(x)
    assert out[:4].isnan().all()
    assert out[4, -1] == 1
    torch.testing.assert_close(out, torch.softmax(x, -1), equal_nan=True)


def test_strided_inputs():
    x = random(40, 30, 20)
    for view in (
        x.mT,
        x[::2],
        x[..., ::3],
        x[..., 1:],
        x.permute(2, 1, 0),
        x[:, :1].expand(40, 7, 20),
        x[:, 3],
    ):
        torch.testing.assert_close(softmax(view), torch.softmax(view, -1))


@pytest.mark.alone
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_rows_further_apart_than_32_bits_count(launcher):
    needs_free_gib(5)
    storage = torch.empty(
        2**31 + 32, dtype=torch.float16, device=DEVICE
    )  # only what is touched takes memory on a CPU
    x = storage.as_strided((3, 5), (2**30, 1))
    x.copy_(random(3, 5))
    torch.testing.assert_close(launcher(x), torch.softmax(x.float(), -1).half())


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("columns", [5, 9001])
def test_an_output_is_written_and_may_be_the_input(launcher, columns):
    x = random(3, columns)
    expected, out = torch.softmax(x, -1), torch.empty_like(x)
    assert launcher(x, out=out) is out
    torch.testing.assert_close(out, expected)
    launcher(x, out=x)
    torch.testing.assert_close(x, expected)


def test_a_negative_bit_is_seen():
    x = random(3, 5)
    for launcher in LAUNCHERS:
        torch.testing.assert_close(launcher(torch._neg_view(x)), torch.softmax(-x, -1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_plan_is_what_softmax_calls(dtype, monkeypatch):
    for columns in (1, 512, 513, 8192, 16_384, 50_257, 300_000):
        plan = softmax_plan(columns, dtype)
        called = []

        def note(x, out, called=called, **settings):
            called.append(settings)
            return x

        monkeypatch.setattr(module, "VERSIONS", {plan.version: note})
        softmax(torch.empty(1, columns, dtype=dtype, device=DEVICE))
        assert called == [plan.settings]
        monkeypatch.undo()


def test_plans_are_in_order_and_have_an_end():
    for rows in PLANS.values():
        widest = [most for most, _ in rows]
        assert widest == sorted(widest)
        assert widest[-1] == math.inf


def test_more_parts_than_a_gpu_runs_at_once_are_swept_by_one_program_or_refused(monkeypatch):
    monkeypatch.setattr(tuned, "gpu_of", lambda x: CPU_MODE._replace(multiprocessors=3))
    x = random(2, 17_000)
    words = "5 programs per row are more than this GPU is sure to run at once; take a larger part_n"
    with pytest.raises(ValueError, match=words):
        module.softmax_v7(x, part_n=4096)
    halves = x.half()
    torch.testing.assert_close(
        softmax(halves), torch.softmax(halves.double(), -1).half(), rtol=2e-3, atol=1e-6
    )


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("parts", [1, 16])
def test_what_a_program_holds_fits_the_registers(dtype, parts):
    vector = 4 if dtype == "fp32" else 8
    lowered = lower(
        tuned.softmax_kernel_v6,
        f"*{dtype}:16", f"*{dtype}:16", "*i64:16", "i32:16", "i32:16", "i32:1",
        ALIGN=vector, VECTOR=vector, RAGGED=False, BLOCK_N=8192, PARTS=parts,
        num_warps=8, target="sm_90",
    )  # fmt: skip
    assert lowered.resources.spill_bytes == 0
    assert lowered.resources.registers <= 64
    assert "ld.global.L1::evict_last.L2::cache_hint.v4" in lowered.ptx


@pytest.mark.parametrize(("align", "vectors"), [(1, False), (8, True)])
def test_a_width_that_is_a_multiple_of_a_vector_alone_is_read_by_vectors(align, vectors):
    lowered = lower(
        tuned.softmax_kernel_v5, "*bf16:16", "*bf16:16", "i32", "i32",
        ALIGN=align, VECTOR=8, RAGGED=False, BLOCK_N=1024, num_warps=1, target="sm_90",
    )  # fmt: skip
    assert (".v4.b32" in lowered.ptx) == vectors


REFUSALS = [
    (lambda: (random(),), ValueError, "x is a scalar; it must have one dimension or more"),
    (lambda: (random(3, 4).int(),), ValueError, "x is torch.int32; this kernel takes"),
    (lambda: (random(3, 4).double(),), ValueError, "x is torch.float64; this kernel takes"),
    (lambda: ([[1.0]],), TypeError, "x is of type list, and must be a torch.Tensor"),
    (lambda: (random(3, 4).to_sparse(),), ValueError,
     "x has layout torch.sparse_coo, and must be dense"),
    (lambda: (random(1).expand(2**30 + 1),), ValueError,
     "1,073,741,825 columns are more than the 1,073,741,824"),
]  # fmt: skip
REFUSED_OUTPUTS = [
    (lambda: random(3, 5), ValueError,
     "x has shape (3, 4) and out has shape (3, 5); both must have the same shape"),
    (lambda: random(3, 4).half(), ValueError,
     "out has dtype torch.float16; both must have the same dtype"),
    (lambda: torch.empty(3, 4, device="meta"), ValueError,
     "out has device meta; both must have the same device"),
    (lambda: random(4, 3).T, ValueError, "out has strides (1, 3), and must be contiguous"),
    (lambda: 3, TypeError, "out is of type int, and must be a torch.Tensor"),
]  # fmt: skip


def test_bad_input_is_a_sentence():
    assert_each_is_refused(LAUNCHERS, REFUSALS)


def test_an_output_that_does_not_fit_is_a_sentence():
    for make, error, words in REFUSED_OUTPUTS:
        args = {"x": random(3, 4), "out": make()}
        assert_each_is_refused(LAUNCHERS, [(lambda args=args: args, error, words)])


@pytest.mark.parametrize("dim", [0, 1, -2, 3, -3])
def test_another_dimension_than_the_last_is_a_sentence(dim):
    with pytest.raises(ValueError, match=f"dim is {dim}, and must be the last one of 3"):
        softmax(random(2, 3, 4), dim=dim)


def test_the_last_dimension_may_be_named_by_its_number():
    x = random(2, 3, 4)
    torch.testing.assert_close(softmax(x, dim=2), torch.softmax(x, 2))


@pytest.mark.gpu  # an interpreted kernel takes CPU tensors
def test_cpu_tensors_are_refused_on_a_gpu():
    x = (torch.rand(3, 3),)
    assert_each_is_refused(LAUNCHERS, [(lambda: x, ValueError, "the inputs are on cpu")])
