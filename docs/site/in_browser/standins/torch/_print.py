"""A tensor as PyTorch prints it."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ._tensor import Tensor

COLUMNS, DIGITS, MOST, EDGE = 80, 4, 1000, 3


def text_of(tensor: "Tensor", shown_as: str, is_default: bool) -> str:
    """All of it. shown_as: its dtype; is_default: whether a reader takes that for granted."""
    values = tensor.values()
    before, suffixes = "tensor(", []
    if not values.size:
        text = "[]"
        suffixes += [f"size={tuple(values.shape)}"] if values.ndim != 1 else []
        is_default = shown_as == "torch.float32"
    else:
        cut = values.size > MOST
        text = _nested(values, _Format(_edges(values) if cut else values), len(before), cut)
    suffixes += [] if is_default else [f"dtype={shown_as}"]
    text = before + text
    last = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if last + len(suffix) + 2 > COLUMNS:
            text += f",\n{' ' * len(before)}{suffix}"
            last = len(before) + len(suffix)
        else:
            text += f", {suffix}"
            last += len(suffix) + 2
    return f"{text})"


class _Format:
    """How each number is written, so that all have one width."""

    def __init__(self, values: np.ndarray) -> None:
        self.is_float = values.dtype.kind == "f"
        self.whole, self.scientific = True, False
        self.width = 1
        shown: list[Any] = values.ravel().tolist()
        if self.is_float:
            shown = [value for value in shown if value and math.isfinite(value)]
            self.whole = all(value == math.ceil(value) for value in shown)
            sizes = [abs(value) for value in shown] or [1.0]
            small = not self.whole and min(sizes) < 1e-4
            self.scientific = max(sizes) / min(sizes) > 1000 or max(sizes) > 1e8 or small
        self.width = max((len(self.plain(value)) for value in shown), default=1)

    def plain(self, value: Any) -> str:
        if not self.is_float:
            return str(value)
        if self.scientific:
            return f"{value:.{DIGITS}e}"
        if self.whole:
            return f"{value:.0f}" + "." * math.isfinite(value)
        return f"{value:.{DIGITS}f}"

    def __call__(self, value: Any) -> str:
        return self.plain(value).rjust(self.width)


def _edges(values: np.ndarray) -> np.ndarray:
    """What is shown of a large tensor."""
    for axis, size in enumerate(values.shape):
        if size > 2 * EDGE:
            values = np.take(values, [*range(EDGE), *range(size - EDGE, size)], axis)
    return values


def _nested(values: np.ndarray, shown: _Format, indent: int, cut: bool) -> str:
    if not values.ndim:
        return shown(values.item())
    is_cut = cut and len(values) > 2 * EDGE
    kept = [*values[:EDGE], *values[-EDGE:]] if is_cut else [*values]
    if values.ndim > 1:
        parts = [_nested(each, shown, indent + 1, cut) for each in kept]
        between = "," + "\n" * (values.ndim - 1) + " " * (indent + 1)
        parts[EDGE:EDGE] = ["..."] * is_cut
        return f"[{between.join(parts)}]"
    parts = [shown(each.item()) for each in kept]
    parts[EDGE:EDGE] = [" ..."] * is_cut
    a_line = max(1, (COLUMNS - indent) // (shown.width + 2))
    lines = [", ".join(parts[i : i + a_line]) for i in range(0, len(parts), a_line)]
    return f"[{(',' + chr(10) + ' ' * (indent + 1)).join(lines)}]"
