"""A training step of a layer of multi-scale retention, of flash-linear-attention."""

import torch
from fla.ops.retention import chunk_retention

torch.manual_seed(0)
x, weight = torch.randn(1, 64, 64), torch.nn.Linear(64, 3 * 64, bias=False)
q, k, v = weight(x).view(1, 64, 3, 2, 32).unbind(2)
out, _ = chunk_retention(q.contiguous(), k.contiguous(), v.contiguous())
out.square().mean().backward()
print(f"gradient {weight.weight.grad.abs().sum().item():.6f}")
