"""A kernel that has one fault, and its twin that has not: the launches that diagnose is held to."""

from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Launch:
    """kernel[grid](*args, **options)"""

    kernel: Any
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Pair:
    """Two launches that do the same work."""

    cause: str
    """What diagnose must say of the first, and must not say of the second."""
    slow: Launch
    mended: Launch

    @property
    def name(self) -> str:
        return f"{self.cause}: {self.slow.kernel.__name__}"


def empty(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor of zeros that takes no memory."""
    return torch.empty(*sizes, dtype=dtype, device="meta")


def view(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor that begins one element after a multiple of 16 bytes."""
    return empty(sizes[0] + 1, *sizes[1:], dtype=dtype)[1:]
