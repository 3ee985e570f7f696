"""A training step of a layer of multi-scale retention, of flash-linear-attention."""

import torch
from fla.layers import MultiScaleRetention

torch.manual_seed(0)
layer = MultiScaleRetention(hidden_size=64, num_heads=2)
x = torch.randn(1, 64, 64, requires_grad=True)
y, *_ = layer(x)
loss = y.square().mean()
loss.backward()
print(f"loss {loss.item():.6f}")
