"""A training step of a layer of DeltaNet, of flash-linear-attention."""

import torch
from fla.ops.delta_rule import fused_recurrent_delta_rule

torch.manual_seed(0)
x, weight = torch.randn(1, 64, 64), torch.nn.Linear(64, 3 * 64, bias=False)
q, k, v = weight(x).view(1, 64, 3, 2, 32).unbind(2)
beta = torch.rand(1, 64, 2)
out, _ = fused_recurrent_delta_rule(q.contiguous(), k.contiguous(), v.contiguous(), beta)
out.square().mean().backward()
print(f"gradient {weight.weight.grad.abs().sum().item():.6f}")
