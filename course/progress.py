"""A progress bar on work that lasts, where somebody is looking: in a terminal or a notebook, not in a log."""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def track(items: Sequence[T], label: str) -> Iterable[T]:
    """Iterate over `items` with a bar that vanishes at the end. COURSE_PROGRESS=off turns it off."""
    if os.environ.get("COURSE_PROGRESS") == "off" or not _somebody_looks():
        return items
    from rich.progress import track as rich_track

    return rich_track(items, label, transient=True)


def _somebody_looks() -> bool:
    return "ipykernel" in sys.modules or sys.stderr.isatty()
