"""A training step of one Llama layer with a head, of Liger's modules."""

from types import SimpleNamespace

import torch
from liger_kernel.transformers.cross_entropy import LigerCrossEntropyLoss
from liger_kernel.transformers.rms_norm import LigerRMSNorm
from liger_kernel.transformers.rope import liger_rotary_pos_emb
from liger_kernel.transformers.swiglu import LigerSwiGLUMLP

torch.manual_seed(0)
TOKENS, WIDTH, HEADS, WORDS = 16, 64, 4, 500
config = SimpleNamespace(
    hidden_size=WIDTH, intermediate_size=4 * WIDTH, hidden_act="silu", pretraining_tp=1
)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = LigerRMSNorm(WIDTH), LigerRMSNorm(WIDTH)
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.mlp = LigerSwiGLUMLP(config)
        self.head = torch.nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, x, cos, sin):
        q, k, v = self.qkv(self.before(x)).view(1, TOKENS, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q, k = liger_rotary_pos_emb(q, k, cos, sin)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + mixed.transpose(1, 2).reshape(1, TOKENS, WIDTH)
        return self.head(x + self.mlp(self.after(x)))


model, loss = Layer(), LigerCrossEntropyLoss()
angles = torch.outer(torch.arange(TOKENS), 1 / 10000 ** (torch.arange(0, 16, 2) / 16))
angles = torch.cat([angles, angles], dim=-1)[None]
x, words = torch.randn(1, TOKENS, WIDTH), torch.randint(WORDS, (TOKENS,))
for _ in range(2):
    step = loss(model(x, angles.cos(), angles.sin()).view(TOKENS, WORDS), words)
    step.backward()
    print(f"loss {step.item():.6f}")
