"""A training step of a block of a vision model, of Liger's modules."""

from types import SimpleNamespace

import torch
from liger_kernel.transformers.dyt import LigerDyT
from liger_kernel.transformers.geglu import LigerGEGLUMLP
from liger_kernel.transformers.layer_norm import LigerLayerNorm

torch.manual_seed(0)
config = SimpleNamespace(hidden_size=64, intermediate_size=128, hidden_act="gelu_pytorch_tanh")
first = torch.nn.Conv2d(3, 64, 4, stride=4)
grouped, normed = torch.nn.GroupNorm(8, 64), LigerLayerNorm(64)
mlp, last = LigerGEGLUMLP(config), LigerDyT(64)
parts = torch.nn.ModuleList([first, grouped, normed, mlp, last])
optimizer = torch.optim.SGD(parts.parameters(), lr=0.01)
for _ in range(2):
    x = grouped(first(torch.randn(2, 3, 16, 16))).flatten(2).transpose(1, 2).contiguous()
    loss = last(x + mlp(normed(x))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.6f}")
