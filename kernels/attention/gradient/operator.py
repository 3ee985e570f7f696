"""The gradient of attention as an operator of PyTorch, which torch.compile need not look into."""

import torch

from kernels.attention.gradient import flash_attention_backward


@torch.library.custom_op("kernels::flash_attention_backward", mutates_args=())
def backward_operator(
    d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    lse: torch.Tensor, d_lse: torch.Tensor | None, causal: bool, scale: float | None, layout: str,
    deterministic: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """`flash_attention_backward`."""
    return flash_attention_backward(
        d_out, q, k, v, out, lse, d_lse, causal, scale, layout, deterministic
    )


@backward_operator.register_fake
def _shapes(
    d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    lse: torch.Tensor, d_lse: torch.Tensor | None, causal: bool, scale: float | None, layout: str,
    deterministic: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    d_q, d_k, d_v = (x.new_empty(x.shape) for x in (q, k, v))
    return d_q, d_k, d_v
