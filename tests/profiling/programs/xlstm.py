"""A training step over the mLSTM cell of the xLSTM, of mlstm-kernels."""

import torch
from mlstm_kernels.torch.chunkwise.triton_xl_chunk import mlstm_chunkwise__xl_chunk

torch.manual_seed(0)
q, k, v = (torch.randn(1, 2, 64, 32, requires_grad=True) for _ in range(3))
i, f = torch.randn(1, 2, 64, requires_grad=True), torch.randn(1, 2, 64, requires_grad=True)
h = mlstm_chunkwise__xl_chunk(q, k, v, i, f, chunk_size=32, autocast_kernel_dtype=torch.float32)
h.square().mean().backward()
print(f"gradient {q.grad.abs().sum().item():.6f}")
