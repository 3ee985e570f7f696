"""A progress bar on work that lasts, where somebody is looking: in a terminal or a notebook, not in
a log."""

import html
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from IPython.display import DisplayHandle

T = TypeVar("T")


def track(items: Sequence[T], label: str) -> Iterator[T]:
    """Iterate over `items`, with a bar once it has lasted a second; it vanishes at the end.

    COURSE_PROGRESS=off turns it off.
    """
    start, bar = time.monotonic(), _bar(label, len(items))
    try:
        for done, item in enumerate(items):
            if time.monotonic() - start > 1:
                bar.update(done)
            yield item
    finally:
        bar.stop()


def show_until(
    ended: Callable[[float], bool], done: Callable[[], int], total: int, label: str
) -> None:
    """Wait for work that is done elsewhere, with a bar once it has lasted two seconds.

    ended: waits for so many seconds, and says whether the work has ended. done: how much of `total`
        is done.
    """
    start, bar = time.monotonic(), _bar(label, total)
    try:
        while not ended(0.5):
            if time.monotonic() - start > 2:
                bar.update(min(done(), total))
    finally:
        bar.stop()


def _bar(label: str, total: int) -> "_NoBar":
    if os.environ.get("COURSE_PROGRESS") == "off" or not _somebody_looks():
        return _NoBar()
    return (_NotebookBar if _in_notebook() else _TerminalBar)(label, total)


class _NoBar:
    """Nobody looks."""

    def update(self, done: int) -> None:
        pass

    def stop(self) -> None:
        pass


class _TerminalBar(_NoBar):
    """A bar that rich draws."""

    def __init__(self, label: str, total: int) -> None:
        from rich.progress import Progress

        self.progress = Progress(transient=True)
        self.task = self.progress.add_task(label, total=total)

    def update(self, done: int) -> None:
        self.progress.start()  # again and again does no harm
        self.progress.update(self.task, completed=done)

    def stop(self) -> None:
        self.progress.stop()


class _NotebookBar(_NoBar):
    """A bar as HTML. A widget would be saved without its state, and be an error when reopened."""

    def __init__(self, label: str, total: int) -> None:
        self.label, self.total = label, total
        self.handle: DisplayHandle | None = None

    def update(self, done: int) -> None:
        text = f"{self.label}: {done} of {self.total}"
        bar = f'<progress value="{done}" max="{self.total}"></progress>'
        self._show({"text/plain": text, "text/html": f"<div>{bar} {html.escape(text)}</div>"})

    def stop(self) -> None:
        if self.handle:
            self._show({"text/plain": "", "text/html": ""})

    def _show(self, bundle: dict[str, str]) -> None:
        from IPython.display import display

        if self.handle is None:
            self.handle = display(bundle, raw=True, display_id=True)
        else:
            self.handle.update(bundle, raw=True)


def _somebody_looks() -> bool:
    """Whether this is a terminal or a notebook's session."""
    return _in_notebook() or sys.stderr.isatty()


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return hasattr(shell, "kernel")
