"""`python -m kernels.attention`: the versions of attention verified on small inputs, of a length
that fills no tile, and on a GPU timed on large ones, beside PyTorch's."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from kernels import attention
from kernels.program import main


def inputs(heads: int, length: int, head_dim: int) -> tuple[torch.Tensor, ...]:
    """q, k and v, on the device that `main` has chosen."""
    return tuple(torch.randn(1, heads, length, head_dim).half() for _ in "qkv")


# v5 does not take the small length, and is timed as flash_attention_tl, which takes it.
main(
    attention.__doc__,
    [
        attention.flash_attention_v1, attention.flash_attention_v2, attention.flash_attention_v3,
        attention.flash_attention_v4, attention.flash_attention_tl, attention.flash_attention,
    ],
    scaled_dot_product_attention, inputs, small=(2, 130, 64), large=(16, 4096, 128), peer="torch",
)
