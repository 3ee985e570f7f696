"""A kernel's variable as it can be sent and shown: its type, its shape, and a cell for each of its elements or a patch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from course.triton_internals.interpreter import interpreted_array

from .address_map import Arguments
from .downsample import Panel

MOST_CELLS_ACROSS = 32
FLOATS_OF_BYTES = {
    "fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2,
    "fp8e4b8": torch.float8_e4m3fnuz, "fp8e5b16": torch.float8_e5m2fnuz,
}  # fmt: skip


class Blob:
    """Arrays one after the other, each on an address that its type allows."""

    def __init__(self) -> None:
        self.content = bytearray()

    def add(self, values: np.ndarray) -> list[Any]:
        """Where the array lies: its type, its place in bytes, its length."""
        self.content += b"\0" * (-len(self.content) % 8)
        place = len(self.content)
        self.content += np.ascontiguousarray(values).tobytes()
        return [values.dtype.str[1:], place, values.size]

    def read(self, where: list[Any]) -> np.ndarray:
        """The array that `add` was given."""
        kind, place, size = where
        return np.frombuffer(self.content, dtype=f"<{kind}", count=size, offset=place)


@dataclass(frozen=True)
class Block:
    """The numbers of an interpreted value."""

    dtype: str
    """Triton's name."""
    numbers: np.ndarray
    of: str = ""
    """Of addresses: the tensor whose elements they count."""


def block_of(value: Any, arguments: Arguments, name: str = "") -> Block | None:
    """What an interpreted tensor holds; None for what is none. name: the variable's."""
    data = interpreted_array(value)
    if data is None:
        return None
    dtype = value.dtype
    if dtype.is_ptr():
        return _addresses(data, f"*{dtype.element_ty}", arguments, name)
    return Block(str(dtype), numbers_of(data, str(dtype)))


def numbers_of(data: np.ndarray, dtype: str) -> np.ndarray:
    """What the interpreter keeps as bits, as numbers."""
    if dtype == "bf16":
        return (data.astype(np.uint32) << 16).view(np.float32)
    if dtype in FLOATS_OF_BYTES:
        return (
            torch.from_numpy(np.array(data, dtype=np.uint8))
            .view(FLOATS_OF_BYTES[dtype])
            .float()
            .numpy()
        )
    return data


def _addresses(data: np.ndarray, dtype: str, arguments: Arguments, name: str) -> Block:
    tensor = arguments.at(data.ravel().astype(np.uint64), [name])
    if tensor is None:
        return Block(dtype, data.astype(np.int64))
    argument = arguments.all[tensor]
    return Block(
        dtype, (data.astype(np.int64) - argument.address) // argument.itemsize, argument.name
    )


def drawn(block: Block, blob: Blob, active: np.ndarray | None = None) -> dict[str, Any]:
    """A block as JSON, with its cells in `blob`.

    active: the lanes that no mask keeps out, of the block's shape.
    """
    found: dict[str, Any] = {"dtype": block.dtype, "shape": list(block.numbers.shape)}
    if block.of:
        found["of"] = block.of
    if block.numbers.ndim == 0:
        return {**found, "text": scalar_text(block.numbers.item())}
    panel = Panel(block.numbers.shape, MOST_CELLS_ACROSS)
    masked = active is not None and active.shape == block.numbers.shape and not active.all()
    meant = (
        block.numbers[active] if masked else block.numbers
    )  # what a masked lane holds is undefined
    finite = meant[np.isfinite(meant)] if meant.dtype.kind == "f" else meant
    found |= {
        "cells": list(panel.cells),
        "patch": list(panel.patch),
        "data": blob.add(_small(panel.shown(block.numbers))),
    }
    if finite.size and block.numbers.dtype != bool:
        found |= {"least": finite.min().item(), "most": finite.max().item()}
    for name, is_odd in ODD.items():
        if meant.dtype.kind == "f" and (count := int(is_odd(meant).sum())):
            found[name] = count
    if masked:
        assert active is not None
        found |= {
            "mask": blob.add(panel.shown(active).astype(np.uint8)),
            "masked": int((~active).sum()),
        }
    return found


ODD: dict[str, Callable[[np.ndarray], np.ndarray]] = {"nan": np.isnan, "inf": np.isinf}


def scalar_text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _small(values: np.ndarray) -> np.ndarray:
    """In a type that a script reads, and no larger than it must be."""
    if values.dtype == bool:
        return values.astype(np.uint8)
    if values.dtype.kind == "f":
        return values.astype(np.float64 if values.itemsize == 8 else np.float32)
    if values.size and (values.min() < -(2**31) or values.max() >= 2**31):
        return values.astype(np.float64)
    return values.astype(np.int32)


def plain_text(value: Any) -> str:
    """What is no block: a constant, a tuple, a tensor descriptor."""
    value = getattr(value, "value", value)  # of a constexpr
    if isinstance(value, (bool, int, float, str, type(None))):
        return scalar_text(value) if isinstance(value, float) else repr(value)[:80]
    if isinstance(value, tuple) or type(value).__name__ == "tuple":
        return f"({', '.join(_item_text(each) for each in value)})"[:80]
    if hasattr(value, "block_shape") or hasattr(value, "block_type"):
        return f"a descriptor of blocks {list(getattr(value, 'block_shape', []))}"
    block = getattr(getattr(value, "handle", None), "block_shape", None)
    return f"a block pointer, {list(block)}" if block else type(value).__name__


def _item_text(value: Any) -> str:
    data = getattr(getattr(value, "handle", None), "data", None)
    if not isinstance(data, np.ndarray):
        return plain_text(value)
    if value.dtype.is_ptr():
        return "pointer"
    return scalar_text(data.item()) if data.size == 1 else f"block {list(data.shape)}"
