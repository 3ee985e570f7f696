"""Copies of a launch's arguments, on memory of their own."""

from dataclasses import replace
from typing import Any

import torch
from triton import TensorWrapper
from triton.tools.tensor_descriptor import TensorDescriptor

from course.lowering.arguments import is_gluon_descriptor
from course.type_names import AnyValue


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
        own = tensor.untyped_storage()
        if own._cdata not in self._storages:
            self._storages[own._cdata] = own if tensor.is_meta else own.clone()
        return on_storage(self._storages[own._cdata], tensor)


def on_storage(storage: torch.UntypedStorage, like: torch.Tensor) -> torch.Tensor:
    """A tensor on a storage, where and as `like` lies on its own."""
    tensor = torch.empty(0, dtype=like.dtype, device=storage.device)
    return tensor.set_(storage, like.storage_offset(), like.size(), like.stride())
