"""The signature of the attention kernel that is exported, `_fwd_kernel`."""

from typing import TYPE_CHECKING

from .options import Variant

if TYPE_CHECKING:
    from kernels.attention.settings import Settings

GRID = "cdiv(seqlen_q, BLOCK_M), nheads, batch"
"""A grid may have 65,535 programs along y, and as many along z: more heads than along y alone."""


def attention_variant(
    dtype: str,
    head_dim: int,
    settings: "Settings",
    flags: tuple[str, str, str, str],
    hint: str = ":16",
    stride: str = "i64",
) -> Variant:
    """A variant for tensors of one dtype and head dimension.

    dtype: "fp16" or "bf16". settings: blocks, warps and stages.
    flags: EVEN_M, EVEN_N, EVEN_HEADDIM (do lengths and head dimension fill their blocks?) and
        IS_CAUSAL, as constants, or as "i1" for arguments of run time.
    hint: what is promised of the tensors' addresses, their strides and of the head dimension, with
        which the mask of every load is computed: without the last, loads move 2 bytes.
    stride: "i64", since a tensor may have more than 2**31 elements, or "i32".
    """
    blocks = [head_dim, settings.block_m, settings.block_n]
    parts = [
        *[f"*{dtype}{hint}"] * 4, f"*fp32{hint}", "*fp32", "fp32",  # Q, K, V, Out; Lse; TMP; scale
        "i32", "i32", *[f"{stride}{hint}"] * 12,  # batch, nheads; the strides
        "i32", "i32", "i32", f"i32{hint}",  # seqlen_q, seqlen_k, seqlen_q_rounded, head_dim
        *flags, *map(str, blocks),
    ]  # fmt: skip
    return Variant(", ".join(parts), settings.num_warps, settings.num_stages)
