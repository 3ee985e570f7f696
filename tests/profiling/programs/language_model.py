"""A training step of a small language model with the loss of crossentropy-triton."""

import torch
from crossentropy_triton import TritonCausalLMLoss

torch.manual_seed(0)
words, width = 1000, 64
model = torch.nn.Sequential(torch.nn.Embedding(words, width), torch.nn.Linear(width, words))
tokens = torch.randint(words, (2, 17))
losses = TritonCausalLMLoss(words)(model(tokens[:, :-1]), tokens[:, 1:].contiguous())
losses.mean().backward()
print(f"loss {losses.mean().item():.6f}")
