"""A training step of attention with entmax in place of softmax, of AdaSplash."""

import torch
from adasplash import adasplash_no_block_mask

torch.manual_seed(0)
q, k, v = (torch.randn(1, 2, 128, 32, requires_grad=True) for _ in range(3))
out = adasplash_no_block_mask(q, k, v, alpha=1.5, is_causal=True, niter=5)
out.square().mean().backward()
print(f"gradient {q.grad.abs().sum().item():.6f}")
