"""What a partition has begun and not waited for."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .copy_names import Store
    from .memory import Pending

Effect = Callable[[], None]
"""Lets something asynchronous take effect: a copy's data arrive, a product has its value."""


@dataclass
class UnderWay:
    """What the warps of a partition have under way, of each kind the oldest first."""

    products: list[Effect] = field(default_factory=list)
    stores: "list[Store]" = field(default_factory=list)
    """Copies by TMA out of shared memory."""
    group: "list[tuple[Pending, Effect]]" = field(default_factory=list)
    """Copies by threads (cp.async) since the last commit_group."""
    groups: list[list[Effect]] = field(default_factory=list)
    """Copies by threads, by the commit_group that ended them."""
