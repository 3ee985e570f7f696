"""The functions of NVIDIA's libdevice that NumPy and Python have as well."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Elementwise = Callable[..., np.ndarray]


def elementwise(symbol: str, result: np.dtype[Any]) -> Elementwise | None:
    """The function of arrays behind a symbol such as `__nv_tanhf`; None where there is none.

    It computes in float64 and rounds once to `result`, its result's type.
    """
    name = symbol.removeprefix("__nv_").removeprefix("fast_")
    for known in (
        name,
        name[:-1],
    ):  # the last letter says the type: tanhf is tanh of float32, isnand isnan of float64
        if known in IN_FLOAT64:
            return lambda *arrays: IN_FLOAT64[known](
                *(each.astype(np.float64) for each in arrays)
            ).astype(result)
        if known in IN_THEIR_TYPE:
            return lambda *arrays: IN_THEIR_TYPE[known](*arrays).astype(result)
    return None


def _rounded(x: np.ndarray) -> np.ndarray:
    """To the nearest integer, halves away from zero, where NumPy takes the even one."""
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1.0, x), 0.0)


def _each(function: Callable[..., float]) -> Elementwise:
    return np.vectorize(function, otypes=[np.float64])


_erfc = _each(math.erfc)

IN_FLOAT64: dict[str, Elementwise] = {
    **{
        name: getattr(np, name)
        for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt")
    },
    **{
        name: getattr(np, name)
        for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "hypot", "fmod", "copysign")
    },
    **{
        name: getattr(np, name)
        for name in ("floor", "ceil", "trunc", "rint", "isnan", "isinf", "isfinite", "signbit")
    },
    **{
        f"a{name}": getattr(np, f"arc{name}")
        for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")
    },
    "exp10": lambda x: np.power(10.0, x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "pow": np.power,
    "powi": np.power,
    "erf": _each(math.erf),
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
    # With a letter in front for the type, and rounded to the nearest. In float64 the rounding of float32 is the same.
    **{f"{kind}add_rn": np.add for kind in "fd"},
    **{f"{kind}sub_rn": np.subtract for kind in "fd"},
    **{f"{kind}mul_rn": np.multiply for kind in "fd"},
    **{f"{kind}div_rn": np.divide for kind in "fd"},
    **{f"{kind}sqrt_rn": np.sqrt for kind in "fd"},
    **{f"{kind}rcp_rn": np.reciprocal for kind in "fd"},
    "frsqrt_rn": lambda x: 1 / np.sqrt(x),
}
IN_THEIR_TYPE: dict[str, Elementwise] = {"nextafter": np.nextafter, "abs": np.abs, "llabs": np.abs}
