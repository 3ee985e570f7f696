"""A training step of a layer of gated linear attention, of flash-linear-attention."""

import torch
from fla.ops.gla import fused_recurrent_gla

torch.manual_seed(0)
x, weight = torch.randn(1, 64, 64), torch.nn.Linear(64, 3 * 64, bias=False)
q, k, v = weight(x).view(1, 64, 3, 2, 32).unbind(2)
g = torch.nn.functional.logsigmoid(torch.randn(1, 64, 2, 32))
out, _ = fused_recurrent_gla(q.contiguous(), k.contiguous(), v.contiguous(), g)
out.square().mean().backward()
print(f"gradient {weight.weight.grad.abs().sum().item():.6f}")
