"""Launches of attention's gradient in Gluon."""

from typing import Any

import torch
import triton
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.attention.gluon.plan import GLUON_DTYPES, MOST_TILES, available
from kernels.attention.gradient.gluon.kernel import gradient_kernel
from kernels.attention.gradient.gluon.wide import wide_kernel
from kernels.attention.gradient.inputs import Backward
from kernels.attention.inputs import as_bhmd, describable
from kernels.device import LOG2E

QUERIES = {64: 128, 128: 64, 256: 64}
"""head_dim -> queries of a tile."""
KEYS = {64: 128, 128: 128, 256: 64}
"""head_dim -> keys of a program."""
ROWS = 64
"""Keys of a consumer: a warp group's products have so many rows."""
SIDE_BY_SIDE = 2
"""Heads whose programs run together. All programs of a head begin with the same queries, and one
that adds to dQ waits for the others. Measured on an H200: with 2 heads up to a tenth less time than
with 1, and more of them read more than the L2 cache holds."""


def servable(launch: Backward) -> bool:
    """Whether the kernel takes these inputs: a GPU and a Triton that it is for, a head_dim of its
    own, and rows that begin at multiples of 16 bytes."""
    q, k, v = launch.forward[:3]
    return (
        launch.forward.queries > 0
        and available(q)
        and q.shape[3] in QUERIES
        and describable(q, k, v, launch.d_out)
        and launch.lse2.numel() < 2**31
        and k.shape[0] * k.shape[1] * triton.cdiv(k.shape[2], KEYS[q.shape[3]]) <= MOST_TILES
    )


def launch_gradient(launch: Backward, sums: torch.Tensor) -> None:
    """Launch the kernel for these inputs. sums: float32 of q's shape, to which dQ / scale is added.
    """
    grid, named = arguments(launch, sums)
    with torch.cuda.device_of(sums):
        kernel_of(launch)[grid](**named, num_warps=4)


def kernel_of(launch: Backward) -> Any:
    """The kernel for this head_dim."""
    return wide_kernel if launch.forward.q.shape[3] > 128 else gradient_kernel


def arguments(launch: Backward, sums: torch.Tensor) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The grid of a launch, and its arguments."""
    q, k, v, _, _, scale, causal, layout = launch.forward
    (batch, heads, seqlen_q, head_dim), (_, key_heads, seqlen_k, _) = q.shape, k.shape
    rows, keys = [1, 1, QUERIES[head_dim], head_dim], [1, 1, ROWS, head_dim]
    d_k, d_v, d_q = (as_bhmd(x, layout) for x in (launch.d_k, launch.d_v, sums))
    numbers = rows[2:3]
    blocks: dict[str, tuple[torch.Tensor, list[int]]] = {
        "q_desc": (q, rows), "k_desc": (k, keys), "v_desc": (v, keys),
        "d_out_desc": (launch.d_out, rows),
        "lse2_desc": (launch.lse2.flatten(), numbers),
        "delta_desc": (launch.delta.flatten(), numbers),
        "d_q_desc": (d_q, [1, 1, 64, 64]), "d_k_desc": (d_k, keys), "d_v_desc": (d_v, keys),
    }  # fmt: skip
    pairs = batch * key_heads
    shared = heads // key_heads
    return (triton.cdiv(seqlen_k, KEYS[head_dim]) * pairs,), {
        **{name: _descriptor(x, block) for name, (x, block) in blocks.items()},
        "seqlen_q": seqlen_q, "seqlen_k": seqlen_k, "padded": launch.lse2.shape[2],
        "nheads": heads, "pairs": pairs,
        "heads_in_l2": min(SIDE_BY_SIDE, pairs),
        "scale": scale, "scale_log2": scale * LOG2E.value,
        "IS_CAUSAL": causal, "EVEN_N": seqlen_k % KEYS[head_dim] == 0, "HEADS_PER_KEY_HEAD": shared,
    }  # fmt: skip


def _descriptor(x: torch.Tensor, block: list[int]) -> TensorDescriptor:
    dtype = GLUON_DTYPES.get(x.dtype, gl.float32)
    layout = gl.NVMMASharedLayout.get_default_for(block, dtype)
    return TensorDescriptor(x, [*x.shape], [*x.stride()], block, layout)
