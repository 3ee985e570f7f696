"""What every version of attention's gradient does first: check its inputs, allocate, and compute
the sums of the rows that each version needs."""

from typing import NamedTuple

import torch
import triton

from kernels.attention.gradient.settings import MULTIPLE
from kernels.attention.gradient.tl import row_sums_kernel
from kernels.attention.inputs import NAME, Launch, as_bhmd, prepare
from kernels.checks import check_same, check_tensors
from kernels.device import as_stored

Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""dQ, dK and dV, each contiguous, of the shape and dtype of what it is the gradient of."""


class Backward(NamedTuple):
    """Checked inputs as [batch, heads, length, head_dim], the gradients as the caller gets them,
    and two numbers for each query: lse2 and delta, float32 [batch, heads, padded]."""

    forward: Launch
    """q, k, v, lse and the options. Its `out` is the tensor that dQ is written to."""
    d_out: torch.Tensor
    d_k: torch.Tensor
    d_v: torch.Tensor
    lse2: torch.Tensor
    delta: torch.Tensor

    @property
    def gradients(self) -> Gradients:
        return self.forward.out, self.d_k, self.d_v


def prepare_backward(
    d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    lse: torch.Tensor, d_lse: torch.Tensor | None, causal: bool, scale: float | None, layout: str,
) -> Backward:
    """Check the inputs, allocate the gradients, and compute lse2 and delta.

    Raises what `prepare` does, and ValueError where d_out, out, lse or d_lse do not fit q.
    """
    forward = prepare(row_sums_kernel, q, k, v, causal, scale, layout)
    check_tensors(NAME, d_out=d_out, out=out, lse=lse)
    check_same(NAME, q=q, d_out=d_out, out=out)
    for name, numbers in (("lse", lse), ("d_lse", d_lse)):
        if numbers is not None:
            _check_numbers(name, numbers, forward.lse)
    lse = as_stored(lse).contiguous()
    forward = forward._replace(lse=lse)  # the one that was allocated is freed
    d_lse = None if d_lse is None else as_stored(d_lse).contiguous()
    d_out, out = (as_bhmd(_rows(x), layout) for x in (d_out, out))
    batch, heads, seqlen_q, head_dim = forward.q.shape
    padded = triton.cdiv(seqlen_q, MULTIPLE) * MULTIPLE
    lse2, delta = torch.empty((2, batch, heads, padded), dtype=torch.float32, device=q.device)
    d_k, d_v = (torch.empty(k.shape, dtype=k.dtype, device=k.device) for _ in "kv")
    if forward.queries:
        block_m = min(4096 // forward.block_headdim, MULTIPLE)
        with torch.cuda.device_of(q):
            row_sums_kernel[(padded // block_m, heads, batch)](
                d_out, out, lse, lse if d_lse is None else d_lse, lse2, delta, heads,
                d_out.stride()[:3], out.stride()[:3], seqlen_q, padded, head_dim,
                HAS_D_LSE=d_lse is not None, BLOCK_HEADDIM=forward.block_headdim,
                BLOCK_M=block_m, num_warps=4,
            )
    return Backward(forward, d_out, d_k, d_v, lse2, delta)


def _rows(x: torch.Tensor) -> torch.Tensor:
    """x in rows without gaps: a sum's gradient is one number, expanded to any shape."""
    x = as_stored(x)
    return x if x.stride(-1) == 1 else x.contiguous()


def _check_numbers(name: str, x: torch.Tensor, like: torch.Tensor) -> None:
    """Raise ValueError where x is not one number for each query."""
    if (x.shape, x.dtype, x.device) != (like.shape, like.dtype, like.device):
        raise ValueError(
            f"{NAME}: {name} has shape {tuple(x.shape)} and is {x.dtype} on {x.device}; it must "
            f"have shape {tuple(like.shape)} and be {like.dtype} on {like.device}."
        )
