"""The gradient of attention on a GPU, by the rule of FlashAttention's own tests: the error is at
most twice that of PyTorch's result in the same dtype, and a little more."""

import itertools

import pytest
import torch

from kernels.attention import flash_attention
from tests.kernels.test_attention_gradient import exact
from tests.kernels.test_flash_attention import DTYPES, inputs, random
from tests.support.devices import needs_capability

pytestmark = pytest.mark.gpu


def in_steps(d_out, q, k, v, causal):
    """The gradients of the formula in the dtype of q, by PyTorch's autograd."""
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    keys, values = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in leaves[1:])
    scores = leaves[0] @ keys.mT * q.shape[-1] ** -0.5
    every = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
    hidden = every.triu(k.shape[2] - q.shape[2] + 1) if causal else ~every
    scores = scores.masked_fill(hidden, torch.finfo(q.dtype).min)
    shares = scores.softmax(-1).masked_fill(hidden, 0)
    return torch.autograd.grad(shares @ values, leaves, d_out)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("head_dim", [40, 64, 128, 256])
def test_the_error_is_at_most_twice_that_of_torch(dtype, deterministic, head_dim):
    if dtype == torch.bfloat16:
        needs_capability(8, 0, "bfloat16")
    shapes = ((4, 1024, 1024), (2, 333, 555), (1, 555, 333), (4, 1, 129))
    for causal, (key_heads, queries, keys) in itertools.product((False, True), shapes):
        q, k, v = inputs(2, 4, queries, keys, head_dim, key_heads, dtype)
        d_out = random(*q.shape, dtype=dtype)
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        out = flash_attention(*leaves, causal, deterministic=deterministic)
        ours = torch.autograd.grad(out, leaves, d_out)
        theirs = in_steps(d_out, q, k, v, causal)
        expected = exact(d_out, q, k, v, causal=causal)
        for one, other, right in zip(ours, theirs, expected, strict=True):
            rounded = right.to(dtype)
            more = 2 * (rounded + 0.3 - 0.3 - rounded).abs().max()
            assert (one - right).abs().max() <= 2 * (other - right).abs().max() + more
