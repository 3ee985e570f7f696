"""Copies of a launch's arguments, on memory of their own."""

from dataclasses import replace
from typing import Any

import torch
from triton import TensorWrapper
from triton.tools.tensor_descriptor import TensorDescriptor

from course.lowering.arguments import is_gluon_descriptor
from course.type_names import AnyValue

MOST_COUNTED = 2**20
"""Bytes of integers up to which an outline keeps them."""


class Copies:
    """Copies of arguments as they were when they were first asked for. Tensors of one storage have
    one storage again."""

    def __init__(self) -> None:
        self._storages: dict[int, torch.UntypedStorage] = {}

    def of(self, value: AnyValue) -> Any:
        """A copy of an argument, its tensors with the same strides."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, TensorDescriptor) or is_gluon_descriptor(value):
            return replace(value, base=self.of(value.base))
        if isinstance(value, TensorWrapper):
            return TensorWrapper(self.of(value.base), value.dtype)
        return tuple(map(self.of, value)) if type(value) is tuple else value

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        key = tensor.untyped_storage()._cdata
        if key not in self._storages:
            self._storages[key] = self._copied(tensor)
        return on_storage(self._storages[key], tensor)

    def _copied(self, tensor: torch.Tensor) -> torch.UntypedStorage:
        own = tensor.untyped_storage()
        return own if tensor.is_meta else own.clone()


class Outlines(Copies):
    """Copies that hold no numbers but the integers of small tensors, from which places may be
    computed. Those lie in the CPU's memory, and the others on the device "meta"."""

    def _copied(self, tensor: torch.Tensor) -> torch.UntypedStorage:
        own = tensor.untyped_storage()
        counts = not (tensor.is_meta or tensor.is_floating_point()) and own.nbytes() <= MOST_COUNTED
        if not counts or (tensor.is_cuda and torch.cuda.is_current_stream_capturing()):
            return torch.UntypedStorage(own.nbytes(), device="meta")
        counted: torch.UntypedStorage = own.cpu() if tensor.is_cuda else own.clone()
        return counted


class OnHost(Copies):
    """Copies in the CPU's memory."""

    def _copied(self, tensor: torch.Tensor) -> torch.UntypedStorage:
        copied: torch.UntypedStorage = super()._copied(tensor).cpu()
        return copied


class Filled(Copies):
    """Copies on a device, where what holds no numbers is filled: normal ones, or zeros for
    integers."""

    def __init__(self, device: str, seed: int) -> None:
        super().__init__()
        self._device, self._random = device, torch.Generator().manual_seed(seed)

    def _copied(self, tensor: torch.Tensor) -> torch.UntypedStorage:
        own = tensor.untyped_storage()
        if tensor.is_meta:
            length = -(-own.nbytes() // tensor.itemsize)
            made = torch.zeros(length)
            if tensor.is_floating_point():
                made = torch.randn(length, generator=self._random)
            own = made.to(tensor.dtype).untyped_storage()
        here: torch.UntypedStorage = own.clone().to(device=torch.device(self._device))
        return here


def on_storage(storage: torch.UntypedStorage, like: torch.Tensor) -> torch.Tensor:
    """A tensor on a storage, where and as `like` lies on its own."""
    tensor = torch.empty(0, dtype=like.dtype, device=storage.device)
    return tensor.set_(storage, like.storage_offset(), like.size(), like.stride())
