"""The gradient of attention beside float64 autograd of the plain formula, in either mode: in
bfloat16 on a GPU only."""

import math
import re

import pytest
import torch

from course import MODE
from kernels import attention
from kernels.attention import attention_operator, flash_attention
from kernels.attention.gradient import (
    flash_attention_backward,
    flash_attention_backward_v1,
    flash_attention_backward_v2,
)
from kernels.attention.gradient.operator import backward_operator
from tests.kernels.test_flash_attention import inputs, random, reference
from tests.support.devices import dtypes_of
from tests.support.refusals import assert_each_is_refused

pytestmark = pytest.mark.gpu_too

LADDER = [flash_attention_backward_v1, flash_attention_backward_v2]
VERSIONS = [*LADDER, *[flash_attention_backward] * MODE.gpu]  # which is v1 without a GPU
DTYPES = dtypes_of(torch.float16, torch.bfloat16)


def exact(d_out, q, k, v, d_lse=None, **options):
    """dQ, dK and dV in float64; 0 where a query sees no key."""
    leaves = [x.detach().double().requires_grad_() for x in (q, k, v)]
    out, lse = reference(*leaves, **options)
    seen = lse > -math.inf
    loss = (out * d_out)[seen].sum()
    if d_lse is not None:
        loss = loss + (lse * d_lse)[seen].sum()
    gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
    return [
        torch.zeros_like(leaf) if each is None else each.nan_to_num(0.0)
        for each, leaf in zip(gradients, leaves, strict=True)
    ]


def assert_close(gradients, expected, dtype):
    # P and dS are rounded to the dtype, and the result is: both errors are those of sums.
    close = 2e-3 if dtype == torch.float16 else 1.6e-2
    for ours, theirs in zip(gradients, expected, strict=True):
        assert ours.dtype == dtype
        largest = max(1.0, float(theirs.abs().max())) if theirs.numel() else 1.0
        torch.testing.assert_close(ours.double(), theirs, rtol=4 * close, atol=close * largest)


def assert_right(version, q, k, v, **options):
    d_out = random(*q.shape, dtype=q.dtype)
    out, lse = flash_attention(q, k, v, return_lse=True, **options)
    gradients = version(d_out, q, k, v, out, lse, **options)
    assert_close(gradients, exact(d_out, q, k, v, **options), q.dtype)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 65), (64, 63), (65, 130), (130, 65)])
def test_every_version_is_right_at_every_length(version, causal, queries, keys):
    for dtype in DTYPES:
        assert_right(version, *inputs(queries=queries, keys=keys, dtype=dtype), causal=causal)


@pytest.mark.parametrize("version", LADDER)
@pytest.mark.parametrize("head_dim", [16, 24, 31, 64, 80, 128, 192, 256])
def test_every_head_dim_is_right(version, head_dim):
    for dtype in DTYPES:
        x = inputs(heads=1, queries=33, keys=40, head_dim=head_dim, dtype=dtype)
        assert_right(version, *x, causal=True)


@pytest.mark.parametrize("version", LADDER)
@pytest.mark.parametrize("key_heads", [1, 2])
def test_the_heads_that_share_keys_add_up(version, key_heads):
    x = inputs(batch=2, heads=4, queries=20, keys=40, head_dim=16, key_heads=key_heads)
    assert_right(version, *x, causal=True, scale=0.5)


def by_autograd(q, k, v, d_out, **options):
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    return torch.autograd.grad(flash_attention(*leaves, **options), leaves, d_out)


@pytest.mark.parametrize("deterministic", [False, True])
def test_autograd_finds_the_gradient(deterministic):
    q, k, v = inputs(queries=40, keys=50, head_dim=16, key_heads=1)
    d_out = random(*q.shape)
    ours = by_autograd(q, k, v, d_out, causal=True, deterministic=deterministic)
    assert_close(ours, exact(d_out, q, k, v, causal=True), q.dtype)


def test_heads_and_length_may_change_places():
    x = inputs(batch=2, heads=4, queries=30, keys=45, head_dim=16, key_heads=2)
    d_out = random(*x[0].shape)
    moved = [each.transpose(1, 2).contiguous() for each in (*x, d_out)]
    ours = by_autograd(*moved, causal=True, layout="bmhd", deterministic=True)
    expected = by_autograd(*x, d_out, causal=True, deterministic=True)
    for one, other, like in zip(ours, expected, moved, strict=False):
        assert one.shape == like.shape
        assert torch.equal(one.transpose(1, 2), other)


def test_strided_inputs_and_gradients():
    packed = random(2, 40, 4, 2, 16)  # q, k, v and the gradient as one projection gives them
    q, k, v, d_out = packed.permute(2, 0, 3, 1, 4)
    assert_close(by_autograd(q, k, v, d_out), exact(d_out, q, k, v), q.dtype)
    q, k, v = inputs(queries=20, keys=20, head_dim=16)
    k, v = k[:, :1].expand(1, 2, 20, 16), torch._neg_view(v)
    d_out = random(1, 2, 16, 20).mT
    assert_close(by_autograd(q, k, v, d_out), exact(d_out, q, k, v), q.dtype)


def test_a_sum_sends_back_a_gradient_without_strides():
    q, k, v = (x.requires_grad_() for x in inputs(queries=20, keys=30, head_dim=16))
    flash_attention(q, k, v).sum().backward()
    expected = exact(torch.ones_like(q), q, k, v)
    assert_close((q.grad, k.grad, v.grad), expected, q.dtype)


@pytest.mark.parametrize("with_out", [False, True])
def test_the_log_sum_exp_has_a_gradient_too(with_out):
    q, k, v = (x.requires_grad_() for x in inputs(queries=20, keys=10, head_dim=16))
    out, lse = flash_attention(q, k, v, causal=True, return_lse=True)
    d_lse, d_out = random(*lse.shape).float(), random(*out.shape) * with_out
    loss = torch.where(lse > -math.inf, lse * d_lse, 0.0).sum()
    if with_out:
        loss = loss + (out.float() * d_out).sum()
    ours = torch.autograd.grad(loss, (q, k, v), allow_unused=True)
    assert_close(ours, exact(d_out, q, k, v, d_lse, causal=True), q.dtype)


@pytest.mark.parametrize("version", LADDER)
def test_a_query_that_sees_no_key_gets_and_gives_no_gradient(version):
    q, k, v = inputs(queries=70, keys=5, head_dim=16)
    out, lse = flash_attention(q, k, v, causal=True, return_lse=True)
    d_out = random(*q.shape)
    d_q, d_k, d_v = version(d_out, q, k, v, out, lse, causal=True)
    assert (d_q[:, :, :65] == 0).all()
    shorter = [x[:, :, 65:].contiguous() for x in (d_out, q)]
    expected = exact(*shorter, k, v, causal=True)
    assert_close((d_q[:, :, 65:], d_k, d_v), expected, q.dtype)


@pytest.mark.parametrize("version", VERSIONS)
def test_no_keys_no_queries_no_batch(version):
    for sizes in ({"keys": 0}, {"queries": 0}, {"batch": 0}):
        x = inputs(**sizes, head_dim=16)
        out, lse = flash_attention(*x, return_lse=True)
        for gradient, like in zip(version(out, *x, out, lse), x, strict=True):
            assert torch.equal(gradient, torch.zeros_like(like))


@pytest.mark.gpu
@pytest.mark.parametrize(("version", "per_query"), [(LADDER[0], 8), (LADDER[1], 8 + 4 * 16)])
def test_it_takes_the_memory_that_is_said(version, per_query):
    x = inputs(batch=2, heads=4, queries=128, keys=64, head_dim=16, key_heads=2)
    out, lse = flash_attention(*x, return_lse=True)
    version(out, *x, out, lse)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    gradients = version(out, *x, out, lse)
    beyond = torch.cuda.max_memory_allocated() - before - sum(each.nbytes for each in gradients)
    assert beyond == per_query * 2 * 4 * 128


@pytest.mark.parametrize("version", LADDER)
def test_nan_in_one_head_stays_there(version):
    q, k, v = inputs(heads=3, queries=20, keys=20, head_dim=16)
    k[:, 1, 7] = math.nan
    out, lse = flash_attention(q, k, v, return_lse=True)
    for gradient in version(random(*q.shape), q, k, v, out, lse):
        assert gradient[:, 1].isnan().any()
        assert not gradient[:, ::2].isnan().any()


def test_a_call_that_wants_no_gradient_passes_the_operator_by(monkeypatch):
    monkeypatch.setattr(attention, "attention_operator", None)
    q, k, v = (x.requires_grad_() for x in inputs(queries=4, keys=5, head_dim=16))
    flash_attention(q.detach(), k.detach(), v.detach())
    with torch.no_grad():
        flash_attention(q, k, v)
    for wanted in (0, 1, 2):
        x = [each.detach() for each in (q, k, v)]
        x[wanted].requires_grad_()
        with pytest.raises(TypeError, match="NoneType"):
            flash_attention(*x)


def test_the_same_bits_may_be_asked_for_in_torchs_way(monkeypatch):
    asked = []
    monkeypatch.setattr(
        attention, "attention_operator", lambda *args: asked.append(args[-1]) or (None, None)
    )
    x = [each.requires_grad_() for each in inputs(queries=4, keys=5, head_dim=16)]
    flash_attention(*x)
    flash_attention(*x, deterministic=True)
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    flash_attention(*x)
    assert asked == [False, True, True]


def test_a_gradient_of_the_gradient_is_refused_and_not_wrong():
    q, k, v = (x.requires_grad_() for x in inputs(queries=4, keys=5, head_dim=16))
    out = flash_attention(q, k, v)
    (d_q,) = torch.autograd.grad(out.square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        d_q.sum().backward()


def test_the_graph_may_be_kept_for_a_second_backward_pass():
    q, k, v = (x.requires_grad_() for x in inputs(queries=20, keys=20, head_dim=16))
    out = flash_attention(q, k, v, deterministic=True)
    d_out = random(*out.shape)
    first, second = (
        torch.autograd.grad(out, (q, k, v), d_out, retain_graph=True) for _ in range(2)
    )
    assert all(map(torch.equal, first, second))


@pytest.mark.parametrize(
    ("layout", "tests"),
    [
        ("bhmd", ("test_schema", "test_autograd_registration", "test_faketensor",
                  "test_aot_dispatch_dynamic")),
        ("bmhd", ("test_faketensor",)),  # only the shapes differ
    ],
)  # fmt: skip
def test_the_operators_pass_opcheck(layout, tests):
    q, k, v = (random(2, 5, 30, 16)[:, :heads] for heads in (4, 2, 2))
    if layout == "bmhd":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    out, lse = flash_attention(q, k, v, True, return_lse=True, layout=layout)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    for operator, args in (
        (attention_operator, (*leaves, True, None, layout, True)),
        (backward_operator, (out, q.detach(), k.detach(), v.detach(), out, lse, None, True, 0.5,
                             layout, True)),
    ):  # fmt: skip
        results = torch.library.opcheck(operator, args, test_utils=tests)
        assert set(results.values()) == {"SUCCESS"}


@pytest.mark.gpu
@pytest.mark.parametrize("head_dim", [40, 64])
def test_compile_takes_the_operator_in_forwards_and_backwards(head_dim):
    x = [each.requires_grad_() for each in inputs(queries=100, keys=200, head_dim=head_dim)]
    d_out = random(*x[0].shape)
    run = torch.compile(lambda q, k, v: 2 * flash_attention(q, k, v, causal=True), fullgraph=True)
    ours = torch.autograd.grad(run(*x), x, d_out)
    assert_close(ours, exact(2 * d_out, *x, causal=True), torch.float16)


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
def test_deterministic_gradients_have_the_same_bits_each_time(causal):
    q, k, v = inputs(batch=2, heads=16, queries=1000, keys=1100, head_dim=64)
    d_out = random(*q.shape)
    out, lse = flash_attention(q, k, v, causal, return_lse=True)
    first = flash_attention_backward(d_out, q, k, v, out, lse, None, causal, deterministic=True)
    for _ in range(20):
        again = flash_attention_backward(d_out, q, k, v, out, lse, None, causal, deterministic=True)
        assert all(map(torch.equal, first, again))


def refused(**change):
    q, k, v = inputs(queries=4, keys=5, head_dim=16)
    args = {"d_out": q, "q": q, "k": k, "v": v, "out": q, "lse": random(1, 2, 4).float()}
    return lambda: tuple((args | change).values())


REFUSED = [
    (refused(d_out=3), TypeError, "d_out is of type int, and must be a torch.Tensor"),
    (refused(d_out=random(1, 2, 5, 16)), ValueError,
     "q has shape (1, 2, 4, 16) and d_out has shape (1, 2, 5, 16)"),
    (refused(d_out=random(1, 2, 4, 16).float()), ValueError, "d_out has dtype torch.float32"),
    (refused(out=random(1, 2, 4, 8)), ValueError, "out has shape (1, 2, 4, 8)"),
    (refused(lse=random(1, 2, 5).float()), ValueError, "lse has shape (1, 2, 5)"),
    (refused(lse=random(1, 2, 4)), ValueError, "lse has shape (1, 2, 4) and is torch.float16"),
    (refused(v=random(1, 2, 6, 16)), ValueError, "v has shape (1, 2, 6, 16)"),
]  # fmt: skip


def test_bad_input_is_a_sentence():
    assert_each_is_refused(LADDER, REFUSED)


@pytest.mark.skipif(not MODE.gpu, reason="needs a GPU: an interpreted kernel takes CPU tensors")
def test_cpu_tensors_are_refused_on_a_gpu():
    x = [each.cpu().requires_grad_() for each in inputs()]
    with pytest.raises(ValueError, match=re.escape("flash_attention: the inputs are on cpu")):
        flash_attention(*x)
