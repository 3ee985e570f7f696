"""A stand-in for triton._C.libtriton: what Triton's interpreter needs of it, and no compiler.

It raises for whatever else is asked of it.
"""

import os
from typing import Any

import numpy as np

from . import gluon_ir, interpreter, ir, linear_layout

__all__ = ["gluon_ir", "interpreter", "ir", "linear_layout"]


def getenv(key: str, default: str | None = None) -> str | None:
    """A variable of the environment."""
    return os.environ.get(key, default)


def getenv_bool(key: str, default: bool) -> bool:
    """A variable of the environment that is on or off."""
    value = os.environ.get(key)
    return default if value is None else value.lower() in ("1", "true", "yes", "on", "y")


def native_specialize_impl(
    backend: object, arg: Any, is_const: bool, specialize: bool, align: bool
) -> tuple[str, Any]:
    """The Triton type of an argument, and what the compiler would be promised of it."""
    if arg is None:
        return "constexpr", None
    if isinstance(arg, (bool, np.bool_)):
        return "u1", None
    if isinstance(arg, (int, np.integer)):
        if arg == 1 and specialize:
            return "constexpr", 1
        name = "i32" if -(2**31) <= arg < 2**31 else "i64" if arg < 2**63 else "u64"
        return name, _divisible(arg, align) if specialize else None
    if isinstance(arg, (float, np.floating)):
        return "fp32", None
    if hasattr(arg, "data_ptr"):
        from triton._utils import canonicalize_dtype

        key = _divisible(arg.data_ptr(), align) if specialize else None
        return ("*k" if is_const else "*") + canonicalize_dtype(arg.dtype), key
    raise TypeError(f"failed to specialize argument of type: {type(arg).__name__}")


def _divisible(number: int, align: bool) -> str:
    return "D" if align and number % 16 == 0 else ""


def make_tensordesc_args(*_: Any) -> Any:
    """Asked for by compiled launches alone."""
    raise NotImplementedError("This page interprets kernels and has no compiler.")


get_cache_invalidating_env_vars = make_tensordesc_args
