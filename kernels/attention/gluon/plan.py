"""Launches of attention in Gluon: what the kernels can serve, and calls that cost little.

On short sequences a kernel takes less time than the checks of its arguments. So whatever follows
from shapes, strides and options is worked out once, as a Plan, and a further call only allocates
its outputs, puts four addresses into descriptors and launches what is compiled already.
"""

from typing import Any

import torch
import triton
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.attention.gluon.kernel import attention_kernel
from kernels.attention.gluon.settings import (
    ROWS,
    HopperSettings,
    heads_per_tile,
    heads_side_by_side,
    hopper_settings,
)
from kernels.attention.gluon.small import small_kernel
from kernels.attention.inputs import LAYOUTS, Launch, Result, as_bhmd, describable, prepare
from kernels.attention.settings import triton_version
from kernels.device import LOG2E, gpu_of

CAPABILITY = (9, 0)
GLUON_TRITON = (3, 9)
"""The first Triton whose Gluon has every name that the kernels use."""
HEAD_DIMS = (64, 128, 256)
MOST_TILES = 2**30
"""What 32 bits count, with as many programs added."""
MOST_PLANS = 4096
"""A program of more shapes than that is a rare one: all are worked out again then."""
GLUON_DTYPES = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16}


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
    batch, heads, seqlen_q, head_dim = launch.q.shape
    return (
        available(launch.q)
        and head_dim in HEAD_DIMS
        and launch.queries > 0
        and describable(launch.q, launch.k, launch.v)
        and batch * heads * triton.cdiv(seqlen_q, ROWS) <= MOST_TILES
    )


class Plan:
    """A launch for all inputs of the same shapes, strides, dtype, device and options.

    settings: the fastest of the table where it is None.

    Raises ValueError for settings that the kernels do not have.
    """

    def __init__(self, launch: Launch, settings: HopperSettings | None = None) -> None:
        q, k, v, out, lse, scale, causal, layout = launch
        batch, heads, seqlen_q, head_dim = q.shape
        seqlen_k, shared = k.shape[2], launch.heads_per_key_head
        if settings is None:
            settings = hopper_settings(head_dim, causal, seqlen_q, seqlen_k)
        settings.check()
        together = heads_per_tile(seqlen_q, shared)
        columns = batch * heads // together
        tiles = triton.cdiv(seqlen_q, settings.queries // together) * columns

        programs = tiles if settings.out_in_q else min(tiles, gpu_of(q).multiprocessors)
        halves = settings.out_halves and not settings.out_in_q

        self.kernel: Any = attention_kernel if settings.consumers else small_kernel
        self.grid = (programs, 1, 1)  # a compiled kernel takes three numbers
        rows, keys = [1, together, ROWS // together, head_dim], [1, 1, settings.block_n, head_dim]
        out_rows = [*rows[:3], head_dim // 2 if halves else head_dim]
        blocks = (q, rows), (k, keys), (v, keys), (as_bhmd(out, layout), out_rows)
        self.descriptors = [_fields(x, block) for x, block in blocks]
        # The names of most constants are those of the settings.
        values: dict[str, Any] = {name.upper(): each for name, each in settings._asdict().items()}
        values["CONSUMER_REGISTERS"], values["PRODUCER_REGISTERS"] = settings.registers
        values |= {
            "seqlen_q": seqlen_q, "seqlen_k": seqlen_k, "nheads": heads, "pairs": batch * heads,
            "heads_in_l2": heads_side_by_side(settings, columns, seqlen_k, head_dim),
            "scale_log2": scale * LOG2E.value,
            "IS_CAUSAL": causal, "EVEN_N": seqlen_k % settings.block_n == 0,
            "HEADS_PER_KEY_HEAD": shared, "KEY_SLOTS": settings.key_slots or settings.slots,
        }
        # The kernel's arguments behind its four descriptors and lse, in its own order.
        self.values = {name: values[name] for name in self.kernel.arg_names[5:]}
        self.compiled: Any = None
        self._values = tuple(self.values.values())
        self._device = q.device.index
        # One element, expanded: empty_like of it takes half of the time of torch.empty.
        self._lse = lse.new_empty(()).expand(lse.shape)

    def arguments(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
        lse: torch.Tensor,
    ) -> tuple[Any, ...]:
        """The kernel's arguments. The tensors may have either layout: only their addresses count.
        """
        of_q, of_k, of_v, of_out = self.descriptors
        return (
            _descriptor(q, of_q), _descriptor(k, of_k), _descriptor(v, of_v),
            _descriptor(out, of_out), lse, *self._values,
        )

    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The output and the log-sum-exp, as `flash_attention` returns them."""
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        lse = torch.empty_like(self._lse, memory_format=torch.contiguous_format)
        arguments = self.arguments(q, k, v, out, lse)
        if torch.cuda.current_device() == self._device:
            self.launch(arguments)
        else:
            with torch.cuda.device(self._device):
                self.launch(arguments)
        return out, lse

    def launch(self, arguments: tuple[Any, ...]) -> None:
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
    descriptor.__dict__ = {**fields, "base": x}
    return descriptor


_plans: dict[tuple[Any, ...], Plan | None] = {}


def plan_of(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float | None,
    layout: str, settings: HopperSettings | None = None,
) -> Plan | None:
    """The plan for a call, made once; None where these kernels do not serve it.

    settings: the fastest of the table where it is None.

    Raises what `prepare` and Plan do.
    """
    try:
        key = (
            q.shape, q.stride(), q.dtype, q.device, k.shape, k.stride(), k.dtype, k.device,
            v.shape, v.stride(), v.dtype, v.device, not causal, scale, layout, settings,
            (q.data_ptr() | k.data_ptr() | v.data_ptr()) % 16,
            q.is_neg() or k.is_neg() or v.is_neg(),
        )
        return _plans[key]
    except KeyError:
        pass
    except (AttributeError, RuntimeError, TypeError):
        return None  # no dense tensors, or a scale that is no number: others say so
    if layout not in LAYOUTS or not isinstance(scale, float | int | None) or not available(q):
        return None
    launch = prepare(attention_kernel, q, k, v, causal, scale, layout)
    # A negated view is copied in each call, and a plan would read the memory that was not.
    copied = any(x.is_neg() for x in (q, k, v))
    if len(_plans) >= MOST_PLANS:
        _plans.clear()
    plan = _plans[key] = None if copied or not servable(launch) else Plan(launch, settings)
    return plan


def flash_attention_hopper(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
    scale: float | None = None, return_lse: bool = False, layout: str = "bhmd",
    settings: HopperSettings | None = None,
) -> Result:
    """`flash_attention` by the kernels in Gluon alone, for compute capability 9.0.

    settings: the fastest of the table where it is None. Raises ValueError where these kernels do
    not serve the inputs, and for settings that they do not have.
    """
    plan = plan_of(q, k, v, causal, scale, layout, settings)
    if plan is None:
        launch = prepare(attention_kernel, q, k, v, causal, scale, layout)
        if launch.queries:
            raise ValueError(
                "flash_attention: the kernels for compute capability 9.0 need such a GPU, Triton "
                "3.9 or later, a head_dim of 64, 128 or 256, and rows that begin at multiples of "
                "16 bytes."
            )
        return launch.result(return_lse)
    out, lse = plan(q, k, v)
    return (out, lse) if return_lse else out
