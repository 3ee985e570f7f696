"""The forward pass of a Llama layer's parts, of Conch."""

import torch
from conch.ops.activation.silu_and_mul import silu_and_mul
from conch.ops.normalization.rms_norm import fused_add_rms_norm, rms_norm

torch.manual_seed(0)
x, residual, weight = torch.randn(8, 64), torch.randn(8, 64), torch.ones(64)
up, down = torch.randn(64, 256) / 8, torch.randn(128, 64) / 11
for _ in range(3):
    hidden, residual = fused_add_rms_norm(x, residual, weight, 1e-6)
    x = silu_and_mul(hidden @ up) @ down
print(f"sum {rms_norm(x, weight, 1e-6).abs().sum().item():.3f}")
