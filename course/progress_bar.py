"""A progress bar on work that lasts, where somebody is looking: in a terminal or a notebook, not in
a log."""

import html
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.5
"""How often work that is done elsewhere is looked at. An interrupt just before a wait is seen this
late."""


def track(items: Sequence[T], label: str) -> Iterator[T]:
    """Iterate over `items`, with a bar once it has lasted a second; it vanishes at the end.

    COURSE_PROGRESS=off turns it off.
    """
    bar = _Bar(label, len(items), after_s=1)
    try:
        for done, item in enumerate(items):
            bar.update(done)
            yield item
    finally:
        bar.stop()


def show_until(
    ended: Callable[[float], bool],
    done: Callable[[], int],
    total: int,
    label: str,
    after_s: float = 2,
) -> None:
    """Wait for work that is done elsewhere, with a bar once it has lasted `after_s` seconds.

    ended: waits for so many seconds, and says whether the work has ended. done: how much of `total`
        is done.
    """
    bar = _Bar(label, total, after_s)
    try:
        while not ended(POLL_S):
            bar.update(min(done(), total))
    finally:
        bar.stop()


class _Bar:
    """A bar that rich draws in a terminal, and a notebook's page as HTML: a widget would be saved
    without its state, and be an error when reopened.

    One at a time, that of the outermost work, and only for the main thread: others work for it.
    """

    _is_visible = False

    def __init__(self, label: str, total: int, after_s: float) -> None:
        self.label, self.total = label, total
        self.visible_at = time.monotonic() + after_s
        self.remove: Callable[[], None] = lambda: None
        self.show: Callable[[int], None] | None = None
        """Shows how much is done; None before the bar is visible."""

    def update(self, done: int) -> None:
        """Show how much is done, if there has been time enough and somebody looks."""
        may_begin = self.show is None and not _Bar._is_visible
        if may_begin and time.monotonic() > self.visible_at and _somebody_looks():
            self._begin_in_notebook() if _in_notebook() else self._begin_in_terminal()
            _Bar._is_visible = True
        if self.show:
            self.show(done)

    def _begin_in_terminal(self) -> None:
        from rich.progress import Progress

        progress = Progress(transient=True)
        task = progress.add_task(self.label, total=self.total)
        progress.start()
        self.show = lambda done: progress.update(task, completed=done)
        self.remove = progress.stop

    def _begin_in_notebook(self) -> None:
        from IPython.display import display

        empty = {"text/plain": "", "text/html": ""}
        handle = display(empty, raw=True, display_id=True)

        def show(done: int) -> None:
            text = f"{self.label}: {done} of {self.total}"
            bar = f'<progress value="{done}" max="{self.total}"></progress>'
            page = f"<div>{bar} {html.escape(text)}</div>"
            handle.update({"text/plain": text, "text/html": page}, raw=True)

        self.show = show
        self.remove = lambda: handle.update(empty, raw=True)

    def stop(self) -> None:
        """Remove the bar, if it is visible."""
        if self.show:
            self.remove()
            _Bar._is_visible = False


def _somebody_looks() -> bool:
    """Whether this is a terminal or a notebook's session, and bars are not turned off."""
    if os.environ.get("COURSE_PROGRESS") == "off":
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    return _in_notebook() or sys.stderr.isatty()


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return hasattr(shell, "kernel")
