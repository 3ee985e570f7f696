"""A kernel's variables and accesses as records: with a cell for each element or patch of them."""

from dataclasses import dataclass

import numpy as np

from course.triton_internals.interpreted_values import numbers_of, scalar_text, value_text
from course.triton_internals.interpreter import Access, interpreted_array
from course.type_names import AnyValue

from .address_map import Arguments
from .downsample import Panel
from .records import Cells, Touch, Value
from .replay_text import touch_text

MOST_CELLS_ACROSS = 32


@dataclass(frozen=True)
class Block:
    """The numbers of an interpreted value."""

    dtype: str
    """Triton's name."""
    numbers: np.ndarray
    of: str = ""
    """The tensor whose elements they count, if they were addresses in it."""


def variable(
    value: AnyValue, arguments: Arguments, name: str, active: np.ndarray | None = None
) -> Value:
    """What a variable holds. active: the lanes that the mask of its load lets pass."""
    data = interpreted_array(value)
    if data is None:
        return Value(text=value_text(value))
    if value.dtype.is_ptr():
        block = _pointers(data, f"*{value.dtype.element_ty}", arguments, name)
    else:
        block = Block(str(value.dtype), numbers_of(data, str(value.dtype)))
    return _value(block, active)


def touch(access: Access, arguments: Arguments, tensor: int | None) -> Touch:
    """An access as a record. tensor: the number of the argument that it goes to."""
    lanes, outside, first, last, cells = int(access.addresses.size), 0, "", "", None
    masked = int(access.active.size) - lanes
    if tensor is not None:
        argument = arguments.all[tensor]
        numbers = argument.numbers(access.addresses)
        inside = numbers[numbers >= 0]
        outside = int((numbers < 0).sum())
        if inside.size:
            first, last = argument.place(int(inside[0])), argument.place(int(inside[-1]))
        touched = Panel(argument.shape).touched(inside)
        cells = Cells.of(np.packbits(touched, bitorder="little"))
    value = None
    if access.values is not None:
        block = Block(access.dtype, numbers_of(access.values, access.dtype))
        value = _value(block, access.active)
    return Touch(
        kind=access.kind,
        text=touch_text(access.kind, lanes, masked, outside, first, last),
        lanes=lanes,
        masked=masked,
        tensor=tensor,
        outside=outside,
        first=first,
        last=last,
        cells=cells,
        value=value,
    )


def _pointers(data: np.ndarray, dtype: str, arguments: Arguments, name: str) -> Block:
    """Addresses as numbers of the tensor's elements, if there is a tensor."""
    addresses = data.astype(np.int64)
    tensor = arguments.at(data.ravel().astype(np.uint64), [name])
    if tensor is None:
        return Block(dtype, addresses)
    argument = arguments.all[tensor]
    return Block(dtype, (addresses - argument.address) // argument.itemsize, argument.name)


def _value(block: Block, active: np.ndarray | None) -> Value:
    """A block as a record. active: the lanes that no mask keeps out, of the block's shape."""
    numbers = block.numbers
    if numbers.ndim == 0:
        return Value(text=scalar_text(numbers.item()), dtype=block.dtype, of=block.of)
    panel = Panel(numbers.shape, MOST_CELLS_ACROSS)
    mask, masked, defined = None, 0, numbers
    if active is not None and active.shape == numbers.shape and not active.all():
        mask, masked = Cells.of(panel.shown(active)), int((~active).sum())
        defined = numbers[active]  # what a masked lane holds is undefined
    is_float = defined.dtype.kind == "f"
    finite = defined[np.isfinite(defined)] if is_float else defined
    has_range = finite.size and numbers.dtype != bool
    return Value(
        dtype=block.dtype,
        of=block.of,
        shape=numbers.shape,
        cells=panel.cells,
        patch=panel.patch,
        data=Cells.of(panel.shown(numbers)),
        least=finite.min().item() if has_range else None,
        most=finite.max().item() if has_range else None,
        nan=int(np.isnan(defined).sum()) if is_float else 0,
        inf=int(np.isinf(defined).sum()) if is_float else 0,
        mask=mask,
        masked=masked,
    )
