"""A training step of lightning attention, of lightning-attn."""

import torch
from lightning_attn.ops import lightning_attn_func
from lightning_attn.utils import _build_slope_tensor

torch.manual_seed(0)
q, k, v = (torch.randn(1, 2, 64, 32, requires_grad=True) for _ in range(3))
out = lightning_attn_func(q, k, v, _build_slope_tensor(2).to(torch.float32))
out.square().mean().backward()
print(f"gradient {q.grad.abs().sum().item():.6f}")
