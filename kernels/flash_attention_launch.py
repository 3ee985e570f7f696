"""What every version of flash_attention does first: check q, k and v, and allocate the outputs."""

import math
from typing import NamedTuple

import torch
import triton

from kernels.checks import GRID_LIMIT, check_runs_on, check_same, check_tensors
from kernels.device import as_stored, gpu_of

DTYPES = (torch.float16, torch.bfloat16)
LAYOUTS = ("bhmd", "bmhd")
MOST_LENGTH = 2**30


class Launch(NamedTuple):
    """Checked inputs as [batch, heads, length, head_dim], the outputs as the caller gets them
    (lse: [batch, heads, length]), and what a launch takes."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out: torch.Tensor
    lse: torch.Tensor
    scale: float
    causal: bool
    layout: str

    @property
    def queries(self) -> int:
        """The queries of all heads: nothing is launched where there is none."""
        return self.lse.numel()

    @property
    def strides(self) -> list[int]:
        """From batch to batch, head to head and row to row, of q, k, v and out."""
        out = as_bhmd(self.out, self.layout)
        return [step for x in (self.q, self.k, self.v, out) for step in x.stride()[:3]]

    @property
    def block_headdim(self) -> int:
        """head_dim, rounded up to a power of two."""
        return triton.next_power_of_2(self.q.shape[3])


def as_bhmd(x: torch.Tensor, layout: str) -> torch.Tensor:
    """x, which has one of LAYOUTS, as [batch, heads, length, head_dim]."""
    return x if layout == "bhmd" else x.transpose(1, 2)


def prepare(
    kernel: object, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    causal: bool, scale: float | None, layout: str,
) -> Launch:
    """Check the inputs and allocate the outputs."""
    name = "flash_attention"
    check_tensors(name, q=q, k=k, v=v)
    check_runs_on(name, kernel, q)
    if layout not in LAYOUTS:
        raise ValueError(f"{name}: layout is {layout!r}, and must be one of {', '.join(LAYOUTS)}.")
    for letter, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise ValueError(
                f"{name}: {letter} has {x.ndim} dimensions, and must have 4: batch, heads, length, "
                "head_dim."
            )
        if x.dtype not in DTYPES:
            raise ValueError(
                f"{name}: {letter} is {x.dtype}; this kernel takes float16 and bfloat16, which "
                "tensor cores multiply exactly."
            )
    check_same(name, k=k, v=v)
    for what in ("device", "dtype"):
        ours, theirs = getattr(q, what), getattr(k, what)
        if ours != theirs:
            raise ValueError(
                f"{name}: q has {what} {ours} and k has {what} {theirs}; both must have the same "
                f"{what}."
            )
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    q, k, v = (as_bhmd(as_stored(x), layout) for x in (q, k, v))
    batch, heads, length, head_dim = q.shape
    if (batch, head_dim) != (k.shape[0], k.shape[3]):
        raise ValueError(
            f"{name}: q has batch {batch} and head_dim {head_dim}, k has batch {k.shape[0]} and "
            f"head_dim {k.shape[3]}; they must agree."
        )
    if not 16 <= head_dim <= 256:
        raise ValueError(
            f"{name}: head_dim is {head_dim}, and must be 16 to 256, what a dot takes and "
            "registers hold."
        )
    if heads and (k.shape[1] == 0 or heads % k.shape[1]):
        raise ValueError(
            f"{name}: {heads} heads of q cannot share {k.shape[1]} heads of k evenly."
        )
    if max(batch, heads) > GRID_LIMIT:
        raise ValueError(
            f"{name}: batch {batch:,} or heads {heads:,} is more than the {GRID_LIMIT:,} that a "
            "grid's axis takes."
        )
    if max(length, k.shape[2]) > MOST_LENGTH:
        raise ValueError(
            f"{name}: {max(length, k.shape[2]):,} rows are more than the {MOST_LENGTH:,} that "
            "32 bits count."
        )
    for letter, x in (("q", q), ("k", k), ("v", v)):
        if x.stride(3) != 1:
            raise ValueError(
                f"{name}: {letter} has stride {x.stride(3)} along head_dim, and must have 1: call "
                ".contiguous() first."
            )
    if scale is None:
        scale = head_dim**-0.5
    if not 0 < scale < math.inf:
        raise ValueError(f"{name}: scale is {scale}, and must be positive and finite.")
    if q.dtype == torch.bfloat16 and (0, 0) < gpu_of(q).capability < (8, 0):
        raise ValueError(f"{name}: this GPU does not compute in bfloat16; take float16.")
    lse = torch.empty((batch, heads, length), dtype=torch.float32, device=q.device)
    return Launch(q, k, v, out, lse, float(scale), bool(causal), layout)


def describable(launch: Launch) -> bool:
    """Whether a tensor descriptor takes k and v: neither is empty, and all rows begin at multiples
    of 16 bytes."""
    return all(
        x.numel()
        and x.data_ptr() % 16 == 0
        and all(step > 0 and step * x.itemsize % 16 == 0 for step in x.stride()[:3])
        for x in (launch.k, launch.v)
    )
