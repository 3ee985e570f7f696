"""The functions of NVIDIA's libdevice that NumPy and Python have as well."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Elementwise = Callable[..., np.ndarray]


def elementwise(symbol: str, result: np.dtype[Any]) -> Elementwise | None:
    """The function on arrays behind a symbol such as `__nv_tanhf`, if NumPy or Python has it.

    It computes in float64 and rounds once to the dtype `result`.
    """
    whole_name = symbol.removeprefix("__nv_").removeprefix("fast_")
    # The last letter may say the type: tanhf is tanh for float32, and isnand is isnan for float64.
    for name in (whole_name, whole_name[:-1]):
        if name in IN_FLOAT64:
            exact = IN_FLOAT64[name]
            return lambda *xs: exact(*(x.astype(np.float64) for x in xs)).astype(result)
        if name in IN_THEIR_TYPE:
            typed = IN_THEIR_TYPE[name]
            return lambda *xs: typed(*xs).astype(result)
    return None


def _rounded(x: np.ndarray) -> np.ndarray:
    """The nearest integer, halves away from zero, where NumPy takes the even one."""
    whole = np.trunc(x)
    nearest: np.ndarray = whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1.0, x), 0.0)
    return nearest


def _by_element(function: Callable[..., float]) -> Elementwise:
    return np.vectorize(function, otypes=[np.float64])


_erfc = _by_element(math.erfc)
_SAME_NAME = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "hypot", "fmod", "copysign"),
    *("floor", "ceil", "trunc", "rint", "isnan", "isinf", "isfinite", "signbit"),
)
_INVERSES = ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")

IN_FLOAT64: dict[str, Elementwise] = {
    **{name: getattr(np, name) for name in _SAME_NAME},
    **{f"a{name}": getattr(np, f"arc{name}") for name in _INVERSES},
    "exp10": lambda x: np.power(10.0, x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "pow": np.power,
    "powi": np.power,
    "erf": _by_element(math.erf),
    "erfc": _erfc,
    "normcdf": lambda x: _erfc(-x / math.sqrt(2)) / 2,
    "fabs": np.abs,
    "nearbyint": np.rint,
    "llrint": np.rint,
    "round": _rounded,
    "llround": _rounded,
    "finite": np.isfinite,
    "fdim": lambda x, y: np.where(x <= y, 0.0, x - y),
    "saturate": lambda x: np.where(np.isnan(x), 0.0, np.clip(x, 0, 1)),
    "fdivide": np.divide,
    # With a letter in front for the type, and rounded to the nearest: in float64 the rounding of
    # float32 is the same.
    **{f"{kind}add_rn": np.add for kind in "fd"},
    **{f"{kind}sub_rn": np.subtract for kind in "fd"},
    **{f"{kind}mul_rn": np.multiply for kind in "fd"},
    **{f"{kind}div_rn": np.divide for kind in "fd"},
    **{f"{kind}sqrt_rn": np.sqrt for kind in "fd"},
    **{f"{kind}rcp_rn": np.reciprocal for kind in "fd"},
    "frsqrt_rn": lambda x: 1 / np.sqrt(x),
}
IN_THEIR_TYPE: dict[str, Elementwise] = {"nextafter": np.nextafter, "abs": np.abs, "llabs": np.abs}
