"""The matrix product of kernels/, as a caller sees it, in either mode; and what it launches."""

import math

import pytest
import torch

from course import DEVICE, MODE, lower
from course.benching.benchmarks import operation
from course.verifying.api import verify
from kernels import matmul as module
from kernels.device import CPU_MODE
from kernels.matmul import matmul, matmul_v1, matmul_v2, matmul_v3, matmul_v4, matmul_v5
from kernels.matmul_settings import LARGE, PLANS, SMALL, TILES, row_of
from tests.support.devices import lacking, needs, needs_free_gib, needs_shared_kib
from tests.support.refusals import assert_each_is_refused

pytestmark = pytest.mark.gpu_too

LADDER = operation("matmul").ladder
LAUNCHERS = (matmul_v1, matmul_v2, matmul_v3, matmul_v4, matmul_v5, matmul)
DESCRIBING = (matmul_v4, matmul_v5)
EVERY_PLAN = [(size, plan) for size, rows in PLANS.items() for _, plan in rows]
EVERY_PLAN += [
    (size, plan._replace(persistent=persistent))
    for size, plan in LARGE.items()
    for persistent in (False, True)
]


def random(*shape, dtype=torch.float32):
    return torch.randn(shape, device=DEVICE).to(dtype)


def rounded_to_tf32(x):
    """x with ten bits behind the point, rounded half to even, as a descriptor's copy does."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFF).view(torch.float32).double()


def close(c, a, b):
    """Whether c is a @ b, to what the mode computes.

    A GPU cuts float32 to the ten bits of TF32: up to 2**-10 of each of a product's two factors. The
    interpreter multiplies float32 exactly; from Triton 3.9 on, descriptors round it to TF32 there
    too.
    """
    results = [a.double() @ b.double()]
    allowed = 1e-3 if c.dtype != torch.float32 else 2**-9 if MODE.gpu else 1e-6
    if MODE.interpreting and c.dtype == torch.float32:
        results.append(rounded_to_tf32(a) @ rounded_to_tf32(b))
    return any(
        c.shape == right.shape
        and float((c.double() - right).norm()) <= allowed * float(right.norm())
        for right in results
    )


@pytest.mark.parametrize("name", LADDER)
def test_every_version_is_right_in_every_case(name):
    needs(LADDER[name])
    whole = operation("matmul")
    result = verify(LADDER[name], whole.reference, whole.cases, absolute=whole.absolute)
    assert result.right, result


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1), (5, 7, 3), (64, 64, 64), (130, 70, 90), (1, 300, 33), (300, 1, 33), (257, 129, 8)],
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_sizes_that_blocks_do_not_divide(launcher, shape, dtype):
    m, n, k = shape
    a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype)
    assert close(launcher(a, b), a, b)


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("shape", [(0, 5, 7), (5, 0, 7), (0, 0, 0)])
def test_an_empty_result_is_empty(launcher, shape):
    m, n, k = shape
    assert launcher(random(m, k), random(k, n)).shape == (m, n)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_sum_of_nothing_is_zero(launcher):
    assert torch.equal(launcher(random(5, 0), random(0, 7)), torch.zeros(5, 7, device=DEVICE))


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_nan_and_infinities_behind_an_operand_are_not_multiplied(launcher):
    a, b = random(100, 100), random(100, 100)
    a[:, 90:], b[90:] = math.nan, math.inf
    a[70:], b[:, 50:] = math.inf, math.nan
    for k in (90, 88):  # 88 columns of float32 are a multiple of 16 bytes
        assert close(launcher(a[:70, :k], b[:k, :50]), a[:70, :k], b[:k, :50])


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_any_strides(launcher):
    a, b = random(96, 80, dtype=torch.float16), random(80, 72, dtype=torch.float16)
    for ours in (
        a,
        a.T.contiguous().T,
        a.repeat_interleave(2, 0)[::2],
        a.repeat_interleave(2, 1)[:, ::2],
        a[:1].expand(96, 80),
    ):
        for theirs in (b, b.T.contiguous().T, b[:, :1].expand(80, 72), b[:, 1:], b[:, 8:]):
            assert close(launcher(ours, theirs), ours, theirs)


@pytest.mark.alone
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_rows_and_steps_further_apart_than_32_bits_count(launcher):
    needs_free_gib(5)
    storage = torch.empty(
        2**31 + 200, dtype=torch.float16, device=DEVICE
    )  # only what is touched takes memory on a CPU
    for stride, shape in (((2**30, 1), (3, 33)), ((1, 2**25), (33, 65))):
        a = storage.as_strided(shape, stride)
        a.copy_(random(*shape))
        b = random(shape[1], 7, dtype=torch.float16)
        assert close(launcher(a, b), a, b)
        b, a = a.T, random(7, shape[1], dtype=torch.float16)
        assert close(launcher(a, b), a, b)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_inputs_may_be_the_same_and_stay_as_they_were(launcher):
    a = random(80, 80)
    before = a.clone()
    assert close(launcher(a, a), before, before)
    assert close(launcher(a, a.T), before, before.T)
    assert torch.equal(a, before)


def test_a_negative_bit_is_seen():
    a, b = random(20, 30), random(30, 40)
    for launcher in LAUNCHERS:
        if not lacking(launcher):
            assert close(launcher(torch._neg_view(a), b), -a, b)


def test_a_gpu_takes_the_row_of_the_table_at_or_below_its_shared_memory():
    rows = {48: 64, 64: 64, 98: 64, 99: 99, 163: 99, 227: 227, 228: 227}
    assert {kib: row_of(kib) for kib in rows} == rows


def be_on_a_gpu_with(kib, monkeypatch):
    """Let launchers take every tensor's GPU for one with so much shared memory."""
    monkeypatch.setattr(module, "gpu_of", lambda x: CPU_MODE._replace(shared_kib=kib))


@pytest.mark.parametrize("kib", [64, 99, 227])
@pytest.mark.parametrize("precision", module.PRECISIONS)
def test_a_gpu_with_less_shared_memory_gets_the_same(kib, precision, monkeypatch):
    needs_shared_kib(kib)
    be_on_a_gpu_with(kib, monkeypatch)
    for dtype in (torch.float16, torch.float32):
        a, b = random(130, 70, dtype=dtype), random(70, 90, dtype=dtype)
        assert close(matmul(a, b, input_precision=precision), a, b)


@pytest.fixture
def used(monkeypatch):
    """How each product from now on is launched; nothing is computed."""
    ways = []
    for launch, way in (("_launch_described", "descriptors"), ("_launch_by_pointers", "pointers")):
        monkeypatch.setattr(module, launch, lambda a, b, c, *rest, way=way: ways.append(way) or c)
    return ways


def test_only_a_gpu_with_a_copy_engine_for_tiles_is_given_descriptors(used, monkeypatch):
    for kib, columns in ((227, 64), (227, 63), (99, 64), (64, 64)):
        be_on_a_gpu_with(kib, monkeypatch)
        matmul(random(64, columns), random(columns, 64))
    assert used == ["descriptors", "pointers", "pointers", "pointers"]


@pytest.mark.parametrize(
    ("m", "n", "k", "dtype", "by"),
    [
        (64, 64, 64, torch.float16, "pointers"),
        (1, 64, 64, torch.float16, "pointers"),
        (64, 64, 72, torch.float16, "descriptors"),  # pointers would read a element by element
        (64, 72, 64, torch.float16, "descriptors"),  # … and here b
        (4096, 4096, 16, torch.float16, "descriptors"),
        (64, 64, 64, torch.float32, "descriptors"),
    ],
)
def test_small_16_bit_products_are_left_to_pointers_where_those_read_by_vectors(
    m, n, k, dtype, by, used, monkeypatch
):
    be_on_a_gpu_with(227, monkeypatch)
    matmul(random(m, k, dtype=dtype), random(k, n, dtype=dtype))
    assert used == [by]


def test_large_operands_that_no_descriptor_takes_are_copied_and_small_ones_are_not(monkeypatch):
    copies = []
    monkeypatch.setattr(
        module,
        "_aligned",
        lambda x, plain=module._aligned: copies.append(tuple(x.shape)) or plain(x),
    )
    a, b = random(70, 33, dtype=torch.float16), random(33, 90, dtype=torch.float16)
    assert close(matmul(a, b), a, b) and not copies
    monkeypatch.setattr(module, "LEAST_TO_COPY", 1)
    assert close(matmul(a, b), a, b) and copies == [(70, 33), (33, 90)]


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("k", [32, 33])
@pytest.mark.parametrize("most", [module.GRID_LIMIT, 1])
def test_b_may_be_transposed_before_the_product(transpose_b, k, most, monkeypatch):
    needs(matmul_v4)
    monkeypatch.setattr(module, "GRID_LIMIT", most)
    a, b = random(70, k), random(k, 90)
    for theirs in (b, b.T.contiguous().T):
        for plan in (
            LARGE[4]._replace(transpose_b=transpose_b),
            LARGE[4]._replace(transpose_b=transpose_b, persistent=True),
        ):
            assert close(matmul_v4(a, theirs, plan=plan), a, theirs)


def test_every_table_has_an_end():
    for rows in (*PLANS.values(), *TILES.values()):
        most = [limit for limit, _ in rows]
        assert most == sorted(most)
        assert most[-1] == math.inf


POINTER_LAUNCHES = [
    (target, kind, tiles)
    for target, kib in (("sm_75", 64), ("sm_80", 99), ("sm_89", 99), ("sm_90", 227))
    for kind in ("16 bits", "tf32", "ieee")
    for tiles in [SMALL[kind], *(tiles for _, tiles in TILES[kib, kind])]
]


@pytest.mark.parametrize(("target", "kind", "tiles"), POINTER_LAUNCHES)
def test_every_launch_by_pointers_fits_its_gpu(target, kind, tiles):
    dtype, precision = ("fp16", "tf32") if kind == "16 bits" else ("fp32", kind)
    lowered = lower(
        module.matmul_kernel_v2, *[f"*{dtype}:16"] * 3,
        *["i32:16"] * 3, "i32:16", "i32:1", "i32:16", "i32:1",
        **tiles.blocks, GROUP_M=tiles.group_m, INPUT_PRECISION=precision,
        **tiles.compiled_with, target=target,
    )  # fmt: skip
    assert lowered.resources.fits
    assert lowered.resources.spill_bytes == 0


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
def test_every_launch_by_descriptors_fits_an_h200(dtype, a_transposed, b_transposed):
    for size, (tiles, persistent, transpose_b) in dict.fromkeys(EVERY_PLAN):
        if size != (4 if dtype == "fp32" else 2) or (transpose_b and not b_transposed):
            continue
        m, n, k = tiles.block_m, tiles.block_n, tiles.block_k
        a_block, b_block = (
            ([k, m] if a_transposed else [m, k]),
            ([n, k] if b_transposed else [k, n]),
        )
        c = f"tensordesc<{dtype}[{m}, {n // 2}]>" if persistent else f"*{dtype}:16"
        lowered = lower(
            module.matmul_kernel_v5 if persistent else module.matmul_kernel_v4,
            f"tensordesc<{dtype}{a_block}>", f"tensordesc<{dtype}{b_block}>", c, *["i32:16"] * 3,
            A_TRANSPOSED=a_transposed, B_TRANSPOSED=b_transposed, **tiles.blocks,
            GROUP_M=tiles.group_m, INPUT_PRECISION="tf32", **tiles.compiled_with, target="sm_90",
        )  # fmt: skip
        assert lowered.resources.fits, (tiles, lowered.resources)
        assert lowered.resources.spill_bytes == 0, (tiles, lowered.resources)
        assert "wgmma" in lowered.ptx


REFUSALS = [
    (lambda: (random(3), random(3, 4)), ValueError,
     "a has shape (3,); it must have two dimensions"),
    (lambda: (random(3, 4), random(2, 4, 5)), ValueError,
     "b has shape (2, 4, 5); it must have two dimensions"),
    (lambda: (random(3, 4), random(5, 6)), ValueError,
     "a has 4 columns and b has 5 rows; there must be as many"),
    (lambda: (random(3, 4).int(), random(4, 5).int()), ValueError,
     "a is torch.int32; this kernel takes float16"),
    (lambda: (random(3, 4), random(4, 5).half()), ValueError,
     "a has dtype torch.float32 and b has dtype torch.float16"),
    (lambda: (random(3, 4), torch.empty(4, 5, device="meta")), ValueError,
     "and b has device meta; both must have the same"),
    (lambda: ([[1.0]], random(1, 1)), TypeError, "a is of type list, and must be a torch.Tensor"),
    (lambda: (random(3, 4), random(4, 5).to_sparse()), ValueError,
     "b has layout torch.sparse_coo, and must be dense"),
    (lambda: (random(3, 1), random(1, 1).expand(1, 2**30 + 1)), ValueError,
     "one dimension may have 1,073,741,824 elements"),
    (lambda: (random(3, 4), random(4, 5), "fp32"), ValueError,
     "input_precision is 'fp32', and must be 'tf32' or 'ieee'"),
]  # fmt: skip


def test_bad_input_is_a_sentence():
    assert_each_is_refused(LAUNCHERS, REFUSALS)


@pytest.mark.gpu  # an interpreted kernel takes CPU tensors
def test_cpu_tensors_are_refused_on_a_gpu():
    x = (torch.rand(3, 3), torch.rand(3, 3))
    assert_each_is_refused(LAUNCHERS, [(lambda: x, ValueError, "the inputs are on cpu")])
