"""Launches of attention for compute capability 9.0: what it can serve, and calls that cost little.

On short sequences a kernel takes less time than the checks of its arguments. So whatever follows
from shapes, strides and options is worked out once, as a Plan, and a further call only allocates
its outputs, puts four addresses into descriptors and launches what is compiled already.
"""

from typing import Any

import torch
import triton
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.device import LOG2E, gpu_of
from kernels.flash_attention_hopper import attention_kernel
from kernels.flash_attention_hopper_settings import (
    ROWS,
    HopperSettings,
    heads_per_tile,
    heads_side_by_side,
    hopper_settings,
)
from kernels.flash_attention_hopper_small import small_kernel
from kernels.flash_attention_launch import LAYOUTS, Launch, as_bhmd, describable, prepare
from kernels.flash_attention_settings import triton_version

CAPABILITY = (9, 0)
GLUON_TRITON = (3, 9)
"""The first Triton whose Gluon has every name that the kernels use."""
HEAD_DIMS = (64, 128, 256)
MOST_TILES = 2**30
"""What 32 bits count, with as many programs added."""
MOST_PLANS = 4096
GLUON_DTYPES = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16}

Result = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


def available(x: torch.Tensor) -> bool:
    """Whether the kernels run where x is: a GPU that they are compiled for, and the Gluon that they
    are written in."""
    return (
        x.is_cuda
        and not triton.knobs.runtime.interpret
        and triton_version() >= GLUON_TRITON
        and gpu_of(x).capability == CAPABILITY
    )


def servable(launch: Launch) -> bool:
    """Whether the kernels take these inputs: available, with a head_dim of their own, and rows that
    begin at multiples of 16 bytes, as tensor descriptors need."""
    batch, heads, length, head_dim = launch.q.shape
    return (
        available(launch.q)
        and head_dim in HEAD_DIMS
        and launch.queries > 0
        and describable(launch)
        and describable(launch._replace(k=launch.q))
        and batch * heads * triton.cdiv(length, ROWS) <= MOST_TILES
    )


class Plan:
    """A launch for all inputs of the same shapes, strides, dtype, device and options.

    settings: the fastest of the table where it is None.
    """

    def __init__(self, launch: Launch, settings: HopperSettings | None = None) -> None:
        q, k, v, out, lse, scale, causal, layout = launch
        (batch, heads, length, head_dim), (_, key_heads, seqlen_k, _) = q.shape, k.shape
        shared = heads // key_heads
        if settings is None:
            settings = hopper_settings(head_dim, causal, length, seqlen_k)
        together = heads_per_tile(length, shared)
        queries = settings.queries // together
        columns = batch * heads // together
        tiles = triton.cdiv(length, queries) * columns
        persistent = settings.persistent and settings.consumers
        programs = min(tiles, gpu_of(q).multiprocessors) if persistent else tiles

        self.device, self.dtype = q.device, q.dtype
        self.out_shape, self.lse_shape = out.shape, lse.shape
        rows, keys = [1, together, ROWS // together, head_dim], [1, 1, settings.block_n, head_dim]
        out_rows = [*rows[:3], head_dim // 2 if persistent and settings.out_halves else head_dim]
        tensors = (q, rows), (k, keys), (v, keys), (as_bhmd(out, layout), out_rows)
        self.descriptors = [_fields(x, block) for x, block in tensors]
        self.numbers = (
            length, seqlen_k, heads, batch * heads,
            heads_side_by_side(settings, columns, seqlen_k, head_dim), scale * LOG2E.value,
        )  # fmt: skip
        common = (causal, seqlen_k % settings.block_n == 0, shared)
        self.kernel: Any = small_kernel
        key_slots = settings.key_slots or settings.slots
        self.constants: tuple[Any, ...] = (
            *common, settings.slots, key_slots, settings.longest_first,
        )  # fmt: skip
        if settings.consumers:
            self.kernel = attention_kernel
            self.constants = (
                *common, settings.consumers, settings.persistent,
                settings.query_slots, settings.slots, key_slots,
                settings.overlap, settings.in_turns, settings.lazy_rescale, settings.longest_first,
                *settings.registers,
            )  # fmt: skip
        self.grid = (programs, 1, 1)
        self.compiled: Any = None

    def arguments(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
        lse: torch.Tensor,
    ) -> tuple[Any, ...]:
        """The kernel's arguments. The tensors may have either layout: only their addresses count.
        """
        of_q, of_k, of_v, of_out = self.descriptors
        return (
            _descriptor(q, of_q), _descriptor(k, of_k), _descriptor(v, of_v),
            _descriptor(out, of_out), lse, *self.numbers, *self.constants,
        )  # fmt: skip

    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The output and the log-sum-exp, as `flash_attention` returns them."""
        out = torch.empty(self.out_shape, dtype=self.dtype, device=self.device)
        lse = torch.empty(self.lse_shape, dtype=torch.float32, device=self.device)
        arguments = self.arguments(q, k, v, out, lse)
        if torch.cuda.current_device() == self.device.index:
            self._launch(arguments)
        else:
            with torch.cuda.device(self.device):
                self._launch(arguments)
        return out, lse

    def _launch(self, arguments: tuple[Any, ...]) -> None:
        if self.compiled is None:
            self.compiled = self.kernel[self.grid](*arguments, num_warps=4)
        else:  # what JITFunction.run would look up again by all arguments
            self.compiled[self.grid](*arguments)


def _fields(x: torch.Tensor, block: list[int]) -> dict[str, Any]:
    """The fields of a descriptor of x, [batch, heads, length, head_dim], but for its base."""
    layout = gl.NVMMASharedLayout.get_default_for(block, GLUON_DTYPES[x.dtype])
    fields = vars(TensorDescriptor(x, [*x.shape], [*x.stride()], block, layout))
    return {name: value for name, value in fields.items() if name != "base"}


def _descriptor(x: torch.Tensor, fields: dict[str, Any]) -> TensorDescriptor:
    """A descriptor at the address of x. What its __init__ checks was checked for the plan."""
    descriptor: TensorDescriptor = object.__new__(TensorDescriptor)
    vars(descriptor).update(fields, base=x)
    return descriptor


_plans: dict[tuple[Any, ...], Plan | None] = {}


def plan_of(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float | None,
    layout: str, settings: HopperSettings | None = None,
) -> Plan | None:
    """The plan for a call, made once; None where these kernels do not serve it.

    settings: the fastest of the table where it is None.

    Raises what `prepare` does.
    """
    if not all(isinstance(x, torch.Tensor) and x.layout is torch.strided for x in (q, k, v)):
        return None
    plain = layout in LAYOUTS and type(scale) in (float, int, type(None))
    if not plain or not available(q):
        return None
    key = (
        q.shape, q.stride(), q.dtype, q.device, k.shape, k.stride(), k.dtype, k.device,
        v.shape, v.stride(), v.dtype, v.device, bool(causal), scale, layout, settings,
        (q.data_ptr() | k.data_ptr() | v.data_ptr()) % 16, q.is_neg() or k.is_neg() or v.is_neg(),
    )  # fmt: skip
    try:
        return _plans[key]
    except KeyError:
        pass
    launch = prepare(attention_kernel, q, k, v, causal, scale, layout)
    copied = any(x.is_neg() for x in (q, k, v))  # for each call, so that its address is no plan's
    if len(_plans) >= MOST_PLANS:
        _plans.clear()
    plan = None if copied or not servable(launch) else Plan(launch, settings)
    _plans[key] = plan
    return plan


def flash_attention_hopper(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    scale: float | None = None, return_lse: bool = False, layout: str = "bhmd",
    settings: HopperSettings | None = None,
) -> Result:
    """`flash_attention` by the kernels for compute capability 9.0 alone.

    settings: the fastest of the table where it is None. Raises ValueError where these kernels do
    not serve the inputs.
    """
    plan = plan_of(q, k, v, causal, scale, layout, settings)
    if plan is None:
        launch = prepare(attention_kernel, q, k, v, causal, scale, layout)
        if launch.queries:
            raise ValueError(
                "flash_attention: the kernels for compute capability 9.0 need such a GPU, Triton "
                "3.9, a head_dim of 64, 128 or 256, and rows that begin at multiples of 16 bytes."
            )
        return (launch.out, launch.lse) if return_lse else launch.out
    out, lse = plan(q, k, v)
    return (out, lse) if return_lse else out
