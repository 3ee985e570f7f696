"""A launch made again in the child, on tensors of its own."""

import inspect
from typing import Any

import numpy as np
import torch

from course.lowering.arguments import Described, Function, make
from course.lowering.kernel_reference import Reference, kernel_at, listing_of
from course.triton_internals.interpreter import Grid
from course.triton_internals.jit_functions import inner_kernel

from .sites import Listing

Json = dict[str, Any]

GAP_BYTES = 2**15
"""Between tensors, so that what is read beside one is not read from the next, and is stopped."""
ALIGNED_BYTES = 512
"""As PyTorch allocates on a GPU."""
MOST_MOVED = 2**28
"""Bytes of tensors that are moved apart. Larger ones stay in their file, and in memory only where they are touched."""


def launching(
    reference: Reference, args: list[Described], kwargs: dict[str, Described], grid: Grid, file: str
) -> tuple[Any, Listing]:
    """A function that launches a kernel once, each time on copies of its own; and the text of what it may run.

    file: where `launching.run` has put the tensors.
    """
    kernel = inner_kernel(kernel_at(reference))
    names = set(inspect.signature(kernel.fn).parameters)

    def launch() -> None:
        kept = _apart(torch.load(file, mmap=True, map_location="cpu", weights_only=True))
        given = {name: make(each, True, kept) for name, each in kwargs.items() if name in names}
        kernel[grid](*(make(each, True, kept) for each in args), **given)

    functions = [
        make(each, True) for each in (*args, *kwargs.values()) if isinstance(each, Function)
    ]
    return launch, Listing(listing_of(kernel, *functions))


def _apart(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors with each storage on its own. One on the meta device gets zeros, whose memory is taken as it is touched."""
    sizes = {
        tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in tensors
    }
    moves = sum(sizes.values()) <= MOST_MOVED
    storages: dict[int, torch.UntypedStorage] = {}
    made = []
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage._cdata not in storages:
            storages[storage._cdata] = _moved(storage) if moves or tensor.is_meta else storage
        own = torch.empty(0, dtype=tensor.dtype)
        made.append(
            own.set_(
                storages[storage._cdata], tensor.storage_offset(), tensor.shape, tensor.stride()
            )
        )
    return made


def _moved(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    size = storage.nbytes()
    if not size:
        return torch.UntypedStorage(0)
    memory = np.zeros(size + 2 * GAP_BYTES + ALIGNED_BYTES, dtype=np.uint8)
    first = GAP_BYTES + -(memory.ctypes.data + GAP_BYTES) % ALIGNED_BYTES
    own = torch.frombuffer(memory, dtype=torch.uint8, count=size, offset=first)  # keeps the memory
    if storage.device.type == "cpu":
        own.copy_(torch.empty(0, dtype=torch.uint8).set_(storage))
    return own.untyped_storage()
