"""Where kernels that Proton has instrumented write what they record."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from triton.runtime import _allocation


@contextlib.contextmanager
def one_profile_buffer() -> Iterator[None]:
    """While active, launches of instrumented kernels write into one buffer and nobody reads it.

    By itself Triton fills a new one with zeros before each launch, which would be timed too.
    """
    buffers: list[torch.Tensor] = []

    def allocate(size: int, alignment: int, stream: int | None) -> Any:
        if not buffers or buffers[-1].numel() < size:
            buffers.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        return buffers[-1]

    before = _allocation._profile_allocator.get()
    _allocation.set_profile_allocator(allocate)
    try:
        yield
    finally:
        _allocation.set_profile_allocator(before)


def set_profile_buffer(buffer: torch.Tensor) -> None:
    """Let launches of instrumented kernels write into this buffer, from now on."""
    _allocation.set_profile_allocator(lambda size, alignment, stream: buffer)
