"""A training step of a layer of HGRN, of flash-linear-attention."""

import torch
from fla.layers import HGRNAttention

torch.manual_seed(0)
layer = HGRNAttention(hidden_size=64, expand_ratio=1)
x = torch.randn(1, 64, 64, requires_grad=True)
y, *_ = layer(x)
loss = y.square().mean()
loss.backward()
print(f"loss {loss.item():.6f}")
