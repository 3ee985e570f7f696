"""The loss of a language model with a large head, of cut-cross-entropy."""

import torch
from cut_cross_entropy import linear_cross_entropy

torch.manual_seed(0)
e = torch.randn(32, 64, dtype=torch.bfloat16, requires_grad=True)
c = torch.randn(512, 64, dtype=torch.bfloat16, requires_grad=True)
loss = linear_cross_entropy(e, c, torch.randint(512, (32,)), impl="cce")
loss.backward()
print(f"loss {loss.item():.4f}")
