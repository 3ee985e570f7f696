"""Attention with 8-bit products, of SageAttention."""

import torch
from sageattention import sageattn

torch.manual_seed(0)
q, k, v = (torch.randn(1, 2, 128, 64, dtype=torch.float16) for _ in range(3))
print(f"sum {sageattn(q, k, v, is_causal=True).float().abs().sum().item():.3f}")
