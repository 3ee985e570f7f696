"""What only a GPU can show of attention: bfloat16, long sequences, errors beside torch's."""

import itertools
import math

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

from kernels.attention import (
    flash_attention,
    flash_attention_v1,
    flash_attention_v3,
    flash_attention_v4,
    flash_attention_v5,
)
from tests.kernels.test_flash_attention import assert_right, inputs, reference
from tests.support.devices import dtypes_of, needs, needs_capability, needs_free_gib

pytestmark = pytest.mark.gpu

LENGTHS = [1, 2, 63, 64, 65, 1000, 4097]
DTYPES = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize(("queries", "keys"), list(itertools.product(LENGTHS, LENGTHS)))
def test_lengths_that_differ_are_right(queries, keys):
    for i, (dtype, causal) in enumerate(itertools.product(dtypes_of(*DTYPES), [False, True])):
        head_dim, key_heads = (64, 128, 256, 80)[i], (1, 2, 4, 2)[i]
        q, k, v = inputs(
            heads=4, queries=queries, keys=keys, head_dim=head_dim, key_heads=key_heads, dtype=dtype
        )
        assert_right(flash_attention, q, k, v, causal=causal)


@pytest.mark.parametrize("head_dim", [128, 256])
@pytest.mark.parametrize(
    ("batch", "heads", "key_heads", "queries", "keys"),
    [
        (4, 16, 16, 2048, 2048),
        (3, 13, 13, 128, 4096),
        (3, 13, 13, 4096, 128),
        (2, 12, 3, 1920, 2176),
        (1, 1, 1, 128, 128),
    ],
)
def test_specialized_warps_are_right_over_many_turns(
    batch, heads, key_heads, queries, keys, head_dim
):
    needs(flash_attention_v5)
    for dtype, causal in itertools.product(DTYPES, [False, True]):
        x = inputs(batch, heads, queries, keys, head_dim, key_heads, dtype)
        assert_right(flash_attention_v5, *x, causal=causal)


@pytest.mark.parametrize("head_dim", [128, 256])
def test_specialized_warps_keep_nan_in_its_head(head_dim):
    needs(flash_attention_v5)
    q, k, v = inputs(batch=2, heads=40, queries=512, keys=512, head_dim=head_dim)
    clean = flash_attention_v5(q, k, v, causal=True)
    k[0, 7], v[1, 9] = math.nan, math.inf
    touched = flash_attention_v5(q, k, v, causal=True)
    others = torch.ones(2, 40, dtype=torch.bool)
    others[0, 7] = others[1, 9] = False
    assert touched[0, 7].isnan().all()
    assert torch.equal(touched[others], clean[others])


@pytest.mark.parametrize("launcher", [flash_attention_v1, flash_attention_v3, flash_attention_v4])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim", [16, 32, 48, 64, 96, 128, 160, 192, 256])
def test_every_version_is_right_at_every_head_dim(launcher, dtype, head_dim):
    if dtype == torch.bfloat16:
        needs_capability(8, 0, "bfloat16")
    for causal in (False, True):
        assert_right(
            launcher, *inputs(queries=300, keys=555, head_dim=head_dim, dtype=dtype), causal=causal
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_the_error_is_that_of_torchs_flash_backend(dtype, causal, head_dim):
    needs_capability(8, 0, "PyTorch's flash backend")
    q, k, v = inputs(queries=4096, keys=4096, head_dim=head_dim, dtype=dtype)
    expected, _ = reference(q, k, v, causal=causal)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        theirs = scaled_dot_product_attention(q, k, v, is_causal=causal)
    ours = flash_attention(q, k, v, causal=causal)
    assert (ours - expected).norm() <= 1.1 * (theirs - expected).norm()
    assert (ours - expected).abs().max() <= 1.5 * (
        theirs - expected
    ).abs().max()  # one element of millions: it varies


def test_the_causal_mask_is_torchs_lower_right_one():
    q, k, v = inputs(queries=100, keys=300, head_dim=64)
    expected = scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(100, 300))
    torch.testing.assert_close(
        flash_attention(q, k, v, causal=True), expected, rtol=4e-3, atol=1e-3
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_the_same_call_gives_the_same_bits(causal, head_dim):
    q, k, v = inputs(batch=4, heads=16, queries=2048, keys=2048, head_dim=head_dim)
    first = flash_attention(q, k, v, causal=causal)
    for _ in range(20):
        assert torch.equal(flash_attention(q, k, v, causal=causal), first)


@pytest.mark.alone
@pytest.mark.parametrize("head_dim", [64, 128])
def test_more_elements_than_32_bits_count(head_dim):
    needs_free_gib(20)  # q in float32 first and then in float16, and the output
    q, k, v = inputs(batch=9, heads=4096 // head_dim, queries=65_536, keys=128, head_dim=head_dim)
    assert q.numel() > 2**31
    out = flash_attention(q, k, v)
    expected, _ = reference(q[-1:, -1:, -100:], k[-1:, -1:], v[-1:, -1:])
    torch.testing.assert_close(out[-1:, -1:, -100:].double(), expected, rtol=4e-3, atol=1e-3)
