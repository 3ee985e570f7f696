"""Launches of attention's gradient in Gluon: what the kernels can serve; calls that cost little.

As in kernels/attention/gluon/plan.py, what follows from shapes, strides and options is worked out
once. A further call only puts addresses into descriptors and launches what is compiled already.
"""

from typing import Any

import torch
import triton
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.attention.gluon.plan import GLUON_DTYPES, MOST_PLANS, MOST_TILES, available
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
that adds to dQ waits for the others; but more heads read more than the L2 cache holds. Chosen
among 1, 2 and 4 on an H200."""


def servable(launch: Backward) -> bool:
    """Whether the kernels take these inputs: a GPU and a Triton that they are for, a head_dim of
    their own, and rows that begin at multiples of 16 bytes."""
    q, k, v = launch.forward[:3]
    return (
        launch.forward.queries > 0
        and available(q)
        and q.shape[3] in QUERIES
        and describable(q, k, v, launch.d_out)
        and launch.lse2.numel() < 2**31
        and k.shape[0] * k.shape[1] * triton.cdiv(k.shape[2], KEYS[q.shape[3]]) <= MOST_TILES
    )


class Plan:
    """A launch for all inputs of the same shapes, strides, dtype, device and options."""

    def __init__(self, launch: Backward, sums: torch.Tensor, add_d_q: bool = True) -> None:
        q, k = launch.forward[:2]
        (batch, heads, seqlen_q, head_dim), (_, key_heads, seqlen_k, _) = q.shape, k.shape
        rows, keys = [1, 1, QUERIES[head_dim], head_dim], [1, 1, ROWS, head_dim]
        numbers, part_of_d_q = rows[2:3], [1, 1, ROWS, 64]
        blocks = [rows, keys, keys, rows, numbers, numbers, part_of_d_q, keys, keys]
        self.kernel: Any = wide_kernel if head_dim > 128 else gradient_kernel
        self.fields = list(map(_fields, _tensors(launch, sums), blocks))
        programs = triton.cdiv(seqlen_k, KEYS[head_dim]) * batch * key_heads
        self.grid = (programs, 1, 1)
        values = {
            "seqlen_q": seqlen_q, "seqlen_k": seqlen_k, "padded": launch.lse2.shape[2],
            "nheads": heads, "pairs": batch * key_heads,
            "heads_in_l2": min(SIDE_BY_SIDE, batch * key_heads),
            "scale": launch.forward.scale, "scale_log2": launch.forward.scale * LOG2E.value,
            "IS_CAUSAL": launch.forward.causal, "EVEN_N": seqlen_k % KEYS[head_dim] == 0,
            "HEADS_PER_KEY_HEAD": heads // key_heads, "ADD_D_Q": add_d_q,
        }
        # The kernel's arguments behind its descriptors, in its own order.
        self._values = tuple(values[name] for name in self.kernel.arg_names[len(blocks) :])
        self._compiled: Any = None

    def arguments(self, launch: Backward, sums: torch.Tensor) -> tuple[Any, ...]:
        """The kernel's arguments."""
        return (*map(_descriptor, _tensors(launch, sums), self.fields), *self._values)

    def __call__(self, launch: Backward, sums: torch.Tensor) -> None:
        """Launch the kernel. sums: float32 of q's shape, to which dQ / scale is added."""
        arguments = self.arguments(launch, sums)
        with torch.cuda.device_of(sums):
            if self._compiled is None:
                self._compiled = self.kernel[self.grid](*arguments, num_warps=4)
            else:  # what JITFunction.run would look up again by all arguments
                self._compiled[self.grid](*arguments)


def _tensors(launch: Backward, sums: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What the kernels have descriptors of, in the order of their arguments."""
    q, k, v = launch.forward[:3]
    d_q, d_k, d_v = (as_bhmd(x, launch.forward.layout) for x in (sums, launch.d_k, launch.d_v))
    lse2, delta = launch.lse2.view(-1), launch.delta.view(-1)
    return q, k, v, launch.d_out, lse2, delta, d_q, d_k, d_v


def _fields(x: torch.Tensor, block: list[int]) -> dict[str, Any]:
    """The fields of a descriptor of x but for its base."""
    layout = gl.NVMMASharedLayout.get_default_for(block, GLUON_DTYPES.get(x.dtype, gl.float32))
    fields = vars(TensorDescriptor(x, [*x.shape], [*x.stride()], block, layout))
    return {name: value for name, value in fields.items() if name != "base"}


def _descriptor(x: torch.Tensor, fields: dict[str, Any]) -> TensorDescriptor:
    """A descriptor at the address of x. What its __init__ checks was checked for the plan."""
    descriptor: TensorDescriptor = object.__new__(TensorDescriptor)
    descriptor.__dict__ = {**fields, "base": x}
    return descriptor


_plans: dict[tuple[Any, ...], Plan] = {}


def launch_gradient(launch: Backward, sums: torch.Tensor, add_d_q: bool = True) -> None:
    """Launch the kernel for these inputs. sums: float32 of q's shape, to which dQ / scale is added.

    add_d_q: without it sums stay as they are, to show what the additions cost.
    """
    q, k, v, _, _, scale, causal, layout = launch.forward
    tensors = (q, k, v, launch.d_out)
    key = (
        *((x.shape, x.stride()) for x in tensors), q.dtype, q.device, scale, causal, layout, add_d_q
    )
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) >= MOST_PLANS:
            _plans.clear()
        plan = _plans[key] = Plan(launch, sums, add_d_q)
    plan(launch, sums)
