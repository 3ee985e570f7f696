"""PyTorch's dispatch modes: each operation is told to the mode that is active."""

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

modes: list[Any] = []
aten = SimpleNamespace()
"""Operations by name and overload, as `aten.clone.default`."""


class Operation:
    """One of PyTorch's operations."""

    def __init__(self, name: str, function: Callable[..., Any], is_view: bool) -> None:
        self._schema = SimpleNamespace(name=f"aten::{name}")
        self.is_view = is_view
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def operation(
    name: str, overload: str = "default", is_view: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate what computes an operation, so that the active mode is told of each call."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        told = Operation(name, function, is_view)
        packet = vars(aten).setdefault(name, SimpleNamespace())
        setattr(packet, overload, told)

        def call(*args: Any, **kwargs: Any) -> Any:
            if not modes:
                return function(*args, **kwargs)
            mode = modes.pop()
            try:
                return mode.__torch_dispatch__(told, (), args, kwargs)
            finally:
                modes.append(mode)

        return call

    return decorate


class TorchDispatchMode:
    """While it is active, its `__torch_dispatch__` runs each operation."""

    def __enter__(self) -> Any:
        modes.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        modes.remove(self)


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[None]:
    kept = modes[:]
    modes.clear()
    try:
        yield
    finally:
        modes[:] = kept


class HigherOrderOperator:
    """None is here: torch.library is not."""


class WeakTensorKeyDictionary(dict):  # type: ignore[type-arg]
    """By identity. It keeps its keys, as whoever makes one drops it soon."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(id(key))[1]

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(id(key), (key, value))

    def __contains__(self, key: Any) -> bool:
        return super().__contains__(id(key))


def tree_map_only(kind: type, change: Callable[[Any], Any], tree: Any) -> Any:
    """The same tuples, lists and dicts, with each value of a type changed."""
    if isinstance(tree, (tuple, list)):
        return type(tree)(tree_map_only(kind, change, each) for each in tree)
    if isinstance(tree, dict):
        return {name: tree_map_only(kind, change, each) for name, each in tree.items()}
    return change(tree) if isinstance(tree, kind) else tree
