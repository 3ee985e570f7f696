"""The time of a launch on this machine's GPU."""

from typing import Any

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from course import MODE
from course.gpus.peaks import Gpu
from course.lowering.arguments import describe

from .launching import Asked


def measured_us(launch: Asked, gpu: Gpu) -> float | None:
    """The median time in microseconds, the L2 cache emptied before each launch, on copies of the tensors.

    None where this machine's GPU is another one, or a tensor lies elsewhere.
    """
    if not MODE.gpu or torch.cuda.get_device_name() not in gpu.device_names:
        return None
    tensors: list[torch.Tensor] = []
    for value in [*launch.args, *launch.kwargs.values()]:
        describe(value, tensors)
    if any(not tensor.is_cuda for tensor in tensors):
        return None
    args = [_copied(value) for value in launch.args]
    kwargs = {name: _copied(value) for name, value in launch.kwargs.items()}
    return (
        float(
            triton.testing.do_bench(
                lambda: launch.kernel[launch.grid](*args, **kwargs), return_mode="median"
            )
        )
        * 1000
    )


def _copied(value: Any) -> Any:
    """An argument on memory of its own, with the same strides."""
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage().clone()
        own = torch.empty(0, dtype=value.dtype, device=value.device)
        return own.set_(storage, value.storage_offset(), value.size(), value.stride())
    if isinstance(value, TensorDescriptor):
        return TensorDescriptor(
            _copied(value.base), value.shape, value.strides, value.block_shape, value.padding
        )
    if isinstance(value, triton.runtime.jit.TensorWrapper):
        return triton.runtime.jit.TensorWrapper(_copied(value.base), value.dtype)
    return tuple(map(_copied, value)) if type(value) is tuple else value
