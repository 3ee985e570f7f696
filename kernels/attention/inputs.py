"""What every version of attention does first: check q, k and v, and allocate the outputs."""

import math
from typing import Any, NamedTuple

import torch
import triton

from kernels.attention.settings import Settings
from kernels.checks import GRID_LIMIT, check_runs_on, check_same, check_tensors
from kernels.device import as_stored, gpu_of

NAME = "flash_attention"
DTYPES = (torch.float16, torch.bfloat16)
LAYOUTS = ("bhmd", "bmhd")
MOST_LENGTH = 2**30

Result = torch.Tensor | tuple[torch.Tensor, torch.Tensor]
"""The output, or (output, log-sum-exp)."""


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
    def strides(self) -> list[tuple[int, ...]]:
        """Of q, k, v and out: from batch to batch, from head to head and from row to row."""
        tensors = (self.q, self.k, self.v, as_bhmd(self.out, self.layout))
        return [x.stride()[:3] for x in tensors]

    @property
    def lengths(self) -> tuple[int, int]:
        """Queries and keys of a head."""
        return self.q.shape[2], self.k.shape[2]

    @property
    def heads_per_key_head(self) -> int:
        """How many heads of q in a row share a head of k and v."""
        return self.q.shape[1] // self.k.shape[1]

    @property
    def block_headdim(self) -> int:
        """head_dim, rounded up to a power of two."""
        return 1 << (self.q.shape[3] - 1).bit_length()

    def grid(self, settings: Settings) -> tuple[int, int, int]:
        """A program for each tile of queries."""
        batch, heads, seqlen_q, _ = self.q.shape
        return triton.cdiv(seqlen_q, settings.block_m), heads, batch

    def constants(self, settings: Settings) -> dict[str, Any]:
        """The constants of v2, v3 and v4, and the compiler's options."""
        (seqlen_q, seqlen_k), head_dim = self.lengths, self.q.shape[3]
        block_headdim = self.block_headdim
        return {
            "EVEN_M": seqlen_q % settings.block_m == 0, "EVEN_N": seqlen_k % settings.block_n == 0,
            "EVEN_HEADDIM": head_dim == block_headdim, "IS_CAUSAL": self.causal,
            "BLOCK_HEADDIM": block_headdim,
            "BLOCK_M": settings.block_m, "BLOCK_N": settings.block_n,
            "HEADS_PER_KEY_HEAD": self.heads_per_key_head, "num_warps": settings.num_warps,
            # A length of 1 is compiled as a constant, for which ptxas 12.8 crashes at two stages.
            "num_stages": settings.num_stages if seqlen_k > 1 else 1,
        }

    def result(self, return_lse: bool) -> Result:
        """What the caller gets."""
        return (self.out, self.lse) if return_lse else self.out


def as_bhmd(x: torch.Tensor, layout: str) -> torch.Tensor:
    """x, which has one of LAYOUTS, as [batch, heads, length, head_dim]."""
    return x if layout == "bhmd" else x.transpose(1, 2)


def prepare(
    kernel: object, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    causal: bool, scale: float | None, layout: str,
) -> Launch:
    """Check the inputs and allocate the outputs."""
    check_tensors(NAME, q=q, k=k, v=v)
    check_runs_on(NAME, kernel, q)
    if layout not in LAYOUTS:
        raise ValueError(f"{NAME}: layout is {layout!r}, and must be one of {', '.join(LAYOUTS)}.")
    _check_kinds(q, k, v)
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    q, k, v = (as_bhmd(as_stored(x), layout) for x in (q, k, v))
    _check_shapes(q, k)
    _check_strides(q=q, k=k, v=v)
    if scale is None:
        scale = q.shape[3] ** -0.5
    if not 0 < scale < math.inf:
        raise ValueError(f"{NAME}: scale is {scale}, and must be positive and finite.")
    # (0, 0): in the interpreter, and on a GPU that is not NVIDIA's.
    if q.dtype == torch.bfloat16 and (0, 0) < gpu_of(q).capability < (8, 0):
        raise ValueError(f"{NAME}: this GPU does not compute in bfloat16; take float16.")
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    return Launch(q, k, v, out, lse, float(scale), bool(causal), layout)


def _check_kinds(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Raise ValueError for tensors of other dimensions or dtypes, and for k and v that differ."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise ValueError(
                f"{NAME}: {name} has {x.ndim} dimensions, and must have 4: batch, heads, length, "
                "head_dim."
            )
        if x.dtype not in DTYPES:
            raise ValueError(
                f"{NAME}: {name} is {x.dtype}; this kernel takes float16 and bfloat16, which "
                "tensor cores multiply exactly."
            )
    check_same(NAME, k=k, v=v)
    for what in ("device", "dtype"):
        ours, theirs = getattr(q, what), getattr(k, what)
        if ours != theirs:
            raise ValueError(
                f"{NAME}: q has {what} {ours} and k has {what} {theirs}; both must have the same "
                f"{what}."
            )


def _check_shapes(q: torch.Tensor, k: torch.Tensor) -> None:
    """Raise ValueError where q, [batch, heads, length, head_dim], does not fit k or the kernels."""
    (batch, heads, seqlen_q, head_dim), (key_batch, key_heads, seqlen_k, key_dim) = q.shape, k.shape
    if (batch, head_dim) != (key_batch, key_dim):
        raise ValueError(
            f"{NAME}: q has batch {batch} and head_dim {head_dim}, k has batch {key_batch} and "
            f"head_dim {key_dim}; they must agree."
        )
    if not 16 <= head_dim <= 256:
        raise ValueError(
            f"{NAME}: head_dim is {head_dim}, and must be 16 to 256, what a dot takes and "
            "registers hold."
        )
    if heads and (key_heads == 0 or heads % key_heads):
        raise ValueError(f"{NAME}: {heads} heads of q cannot share {key_heads} heads of k evenly.")
    if max(batch, heads) > GRID_LIMIT:
        raise ValueError(
            f"{NAME}: batch {batch:,} or heads {heads:,} is more than the {GRID_LIMIT:,} that a "
            "grid's axis takes."
        )
    if (longest := max(seqlen_q, seqlen_k)) > MOST_LENGTH:
        raise ValueError(
            f"{NAME}: {longest:,} rows are more than the {MOST_LENGTH:,} that 32 bits count."
        )


def _check_strides(**tensors: torch.Tensor) -> None:
    for name, x in tensors.items():
        if x.stride(3) != 1:
            raise ValueError(
                f"{NAME}: {name} has stride {x.stride(3)} along head_dim, and must have 1: call "
                ".contiguous() first."
            )


def describable(*tensors: torch.Tensor) -> bool:
    """Whether tensor descriptors take these: none is empty or expanded (with a stride of 0), and
    all rows begin at multiples of 16 bytes."""
    return all(
        x.numel()
        and x.data_ptr() % 16 == 0
        and all(step > 0 and step * x.itemsize % 16 == 0 for step in x.stride()[:3])
        for x in tensors
    )
