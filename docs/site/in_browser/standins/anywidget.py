"""A stand-in for anywidget: a page keeps widgets as a saved notebook does, and wakes them."""

from collections.abc import Callable
from typing import Any


class AnyWidget:
    """A widget without a session."""

    def on_msg(self, answer: Callable[..., None]) -> None:
        """Nobody sends a message."""

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        raise NotImplementedError("A page shows what is saved of a widget.")
