"""What only a GPU can show of the matrix product: bfloat16, TF32, large shapes, errors."""

import math

import pytest
import torch

from course.benching.benchmarks import operation
from course.verifying.inputs import FLOATS
from kernels.matmul import matmul, matmul_v1, matmul_v2, matmul_v3, matmul_v4, matmul_v5
from tests.support.devices import needs_capability, needs_free_gib, needs_shared_kib

pytestmark = pytest.mark.gpu

LAUNCHERS = (matmul_v1, matmul_v2, matmul_v3, matmul_v4, matmul_v5, matmul)
SHAPES = [(64, 64, 64), (2048, 2048, 2048), (1025, 1027, 1029), (4097, 4101, 99)]


def random(*shape, dtype):
    return torch.randn(shape, dtype=dtype, device="cuda")


def error(c, a, b):
    exact = a.double() @ b.double()
    return float((c.double() - exact).norm() / exact.norm())


@pytest.fixture
def torch_in_tf32():
    allowed = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    yield
    torch.backends.cuda.matmul.allow_tf32 = allowed


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_error_is_at_most_a_tenth_more_than_torchs(dtype, torch_in_tf32):
    if dtype == torch.float32:
        needs_shared_kib(
            227
        )  # with less, pointers read the operands, and tensor cores cut them to TF32
    vectors = (
        [] if dtype == torch.float32 else [(1, 4096, 4096), (4096, 1, 4096)]
    )  # torch's TF32 is for matrices alone
    for m, n, k in SHAPES + vectors:
        a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype)
        assert error(matmul(a, b), a, b) <= 1.1 * error(a @ b, a, b), (m, n, k)


def rounded_to_tf32(x):
    """x with 10 bits of mantissa, halves rounded up, where torch may not multiply in TF32."""
    return ((x.view(torch.int32) + 2**12) & -(2**13)).view(torch.float32)


def test_by_pointers_operands_are_cut_to_tf32_and_not_rounded():
    needs_capability(8, 0, "TF32")
    a, b = random(1024, 33, dtype=torch.float32), random(33, 1040, dtype=torch.float32)
    of_rounding = error(rounded_to_tf32(a).double() @ rounded_to_tf32(b).double(), a, b)
    assert 2 * of_rounding < error(matmul(a, b), a, b) < 3 * of_rounding


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_pair_of_layouts(launcher, dtype):
    a, b = random(1040, 1032, dtype=dtype), random(1032, 1048, dtype=dtype)
    allowed = 1.5e-3 if dtype == torch.float32 else torch.finfo(dtype).eps / 2
    for ours in (a, a.T.contiguous().T):
        for theirs in (b, b.T.contiguous().T):
            assert error(launcher(ours, theirs), a, b) <= allowed


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_exact_float32_is_exact(launcher):
    a, b = random(300, 500, dtype=torch.float32), random(500, 200, dtype=torch.float32)
    assert error(launcher(a, b, input_precision="ieee"), a, b) <= 1e-6


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_what_lies_behind_a_row_is_not_multiplied(launcher, dtype):
    wide, b = random(1100, 1112, dtype=dtype), random(1200, 1096, dtype=dtype)
    wide[:, 1033:], b[1033:] = math.nan, math.inf
    wide[1033:], b[:, 1033:] = math.inf, math.nan
    assert launcher(wide[:1033, :1033], b[:1033, :1033]).isfinite().all()


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_same_twice(launcher):
    a, b = random(4096, 2048, dtype=torch.bfloat16), random(2048, 4096, dtype=torch.bfloat16)
    first = launcher(a, b)
    for _ in range(10):
        assert torch.equal(launcher(a, b), first)


def test_more_columns_of_float32_than_a_grid_has_blocks_of():
    a, b = random(8, 16, dtype=torch.float32), random(16, 64 * 65_535 + 64, dtype=torch.float32)
    assert error(matmul(a, b)[:, -100:], a, b[:, -100:]) <= 1.5e-3


@pytest.mark.alone
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_more_elements_than_32_bits_count(launcher):
    needs_free_gib(16)  # a, c and their copies; what was before is freed late
    a = random(2**31 // 4096 + 100, 4096, dtype=torch.float16)
    b = random(4096, 72, dtype=torch.float16)
    torch.testing.assert_close(launcher(a, b)[-200:], a[-200:] @ b, rtol=2e-3, atol=0.1)
    a, b = random(2**25 + 5, 40, dtype=torch.float16), random(40, 72, dtype=torch.float16)
    torch.testing.assert_close(launcher(a, b)[-200:], a[-200:] @ b, rtol=2e-3, atol=0.01)


def test_the_public_one_is_in_the_ladder():
    assert list(operation("matmul").ladder)[-1] == "matmul"
