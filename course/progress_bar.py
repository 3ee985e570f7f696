"""A progress bar on work that lasts, where somebody is looking: in a terminal or a notebook, not in
a log."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def track(items: Sequence[T], label: str) -> Iterator[T]:
    """Iterate over `items`, with a bar once it has lasted a second; it vanishes at the end.

    COURSE_PROGRESS=off turns it off.
    """
    if os.environ.get("COURSE_PROGRESS") == "off" or not _somebody_looks():
        yield from items
        return
    from rich.progress import Progress

    start = time.monotonic()
    progress = Progress(transient=True)
    task = progress.add_task(label, total=len(items))
    try:
        for done, item in enumerate(items):
            if time.monotonic() - start > 1:
                progress.start()  # again and again does no harm
                progress.update(task, completed=done)
            yield item
    finally:
        progress.stop()


def _somebody_looks() -> bool:
    """Whether this is a terminal or a notebook's session."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return hasattr(shell, "kernel") or sys.stderr.isatty()
