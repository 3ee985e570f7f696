"""Something to be done to a module as soon as a program imports it, and not before."""

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any


def when_imported(name: str, act: Callable[[ModuleType], None]) -> Callable[[], None]:
    """Call act(module) now if the module is there, else when it has been imported.

    Returns a function that waits for it no longer.
    """
    if name in sys.modules:
        act(sys.modules[name])
        return lambda: None
    finder = _Finder(name, act)
    sys.meta_path.insert(0, finder)
    return finder.leave


class _Finder:
    """Finds the module once, as Python would."""

    def __init__(self, name: str, act: Callable[[ModuleType], None]) -> None:
        self._name, self._act = name, act

    def leave(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, _: Any = None) -> Any:
        if name != self._name:
            return None
        self.leave()
        spec: Any = PathFinder.find_spec(name, path)
        load = spec.loader.exec_module

        def load_and_act(module: ModuleType) -> None:
            load(module)
            self._act(module)

        spec.loader.exec_module = load_and_act
        return spec
