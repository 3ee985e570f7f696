"""What a simulated kernel may call: names of `gl`, `mbarrier`, `tma` and others, and no more."""

import inspect
from collections.abc import Callable
from typing import NoReturn

from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import ampere, hopper

from .copy_names import AsyncCopyNames, TmaNames
from .faults import UnsupportedError
from .gl_names import LAYOUTS, TYPES, GlNames, elementwise_functions
from .mbarrier_names import MbarrierNames
from .product_names import ProductNames
from .program import Program
from .values import plain


class Names:
    """A module as a simulated kernel sees it: what is missing is refused by its name."""

    def __init__(self, module: str, **known: object) -> None:
        self._module = module
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> NoReturn:
        known = ", ".join(sorted(name for name in vars(self) if name[0].islower()))
        raise UnsupportedError(f"simulate does not know {self._module}.{name}. It knows {known}.")


def replacements(program: Program) -> dict[int, object]:
    """id(imported object) -> the simulator's replacement for it."""
    types = {name: getattr(gl, name) for name in (*LAYOUTS, *TYPES)}
    mbarrier = Names("mbarrier", **_public(MbarrierNames(program)))
    tma = Names("tma", **_public(TmaNames(program)))
    async_copy = Names("async_copy", **_public(AsyncCopyNames(program)))
    parts = {"mbarrier": mbarrier, "tma": tma, "async_copy": async_copy}
    modules = {
        gl: Names("gl", **types, **elementwise_functions(), **_public(GlNames(program))),
        hopper.mbarrier: mbarrier,
        hopper.tma: tma,
        ampere.async_copy: async_copy,
        ampere: Names("ampere", async_copy=async_copy),
        hopper: Names("hopper", **_public(ProductNames(program)), **parts),
    }
    by_identity = {id(module): names for module, names in modules.items()}
    for module, names in modules.items():  # what was imported by its own name
        by_identity |= {
            id(getattr(module, name)): value
            for name, value in vars(names).items()
            if hasattr(module, name) and callable(value) and not inspect.isclass(value)
        }
    return by_identity | {id(gl.constexpr): plain}


def _public(holder: object) -> dict[str, Callable[..., object]]:
    return {
        name: value
        for name, value in inspect.getmembers(holder)
        if not name.startswith("_") and callable(value)
    }
