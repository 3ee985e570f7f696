"""Why a launch did what is wrong, as far as its accesses show it, in a sentence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from course.triton_internals.interpreter import Access, Launch

from .address_map import Argument, Arguments
from .own_line import OwnLine
from .records import grid_text, program_text

Cause = tuple[str, OwnLine | None]
"""A sentence, and the line that it is about; empty, and None, where nothing shows."""


@dataclass(frozen=True)
class Followed:
    """A launch that has ended, with its accesses and the lines that made them."""

    launch: Launch
    accesses: Sequence[Access]
    lines: Sequence[OwnLine | None]

    def writes(self, out: torch.Tensor, index: tuple[int, ...]) -> list[Access]:
        """The stores and atomics that went to an element."""
        address = address_of(out, index)
        stores = (each for each in self.accesses if each.kind != "load")
        return [each for each in stores if (each.addresses == address).any()]


def address_of(out: torch.Tensor, index: tuple[int, ...]) -> int:
    """The address of a tensor's element."""
    steps = zip(index, out.stride(), strict=True)
    return out.data_ptr() + out.element_size() * sum(i * step for i, step in steps)


def why_outside(
    access: Access, argument: Argument | None, launch: Launch, before: Access | None = None
) -> str:
    """Why an access is outside.

    argument: the tensor that is meant, if that is known.
    before: what the program did in this tensor by the same line before, if anything.
    """
    size = access.itemsize
    if wrapped := _wrapped(access, launch):
        return wrapped
    if argument is not None and size > 1 and access.pointers.size > 1:
        offsets = access.addresses.astype(np.int64) - argument.address
        inside = (offsets >= 0) & (offsets < argument.elements * size**2)
        if (inside & (offsets % size**2 == 0)).all():
            return (
                f" Divided by {size}, the size of an element, its offsets all lie inside: they "
                "count elements, and not bytes."
            )
    verb = "load" if access.kind == "load" else "store"
    if access.pointers.size > 1 and not access.masked:
        if too_far := _too_far(access, argument, before):
            return too_far
        text = f" This tl.{verb} has no mask: give it mask=offsets < n."
        return text + _begins_far_on(access, argument)
    return _all_rows(access, argument, launch) + _sizes_given(launch, argument)


def _wrapped(access: Access, launch: Launch) -> str:
    """The offsets of a tensor of more than 2**31 elements have wrapped around in 32 bits."""
    addresses = access.addresses.astype(np.int64)
    for argument in Arguments(launch).all:
        meant = addresses - argument.address + 2**32 * argument.itemsize
        size = argument.end - argument.address
        if ((meant >= 2**31 * argument.itemsize) & (meant < size)).all():
            return (
                f" Its offset in {argument.name} has reached 2**31 and wraps around in 32 bits: "
                "compute it in 64, as tl.program_id(0).to(tl.int64) * stride."
            )
    return ""


def _too_far(access: Access, argument: Argument | None, before: Access | None) -> str:
    """A block is past the end, and that of an iteration before was not: no mask is missing."""
    if argument is None or before is None:
        return ""
    begins = argument.past(before.pointers, access.pointers)
    return begins and f" Its block begins at {begins}, past the end: does a loop go on too far?"


def _begins_far_on(access: Access, argument: Argument | None) -> str:
    """A block of neighbors begins farther on than blocks that follow one another do."""
    pid, *others = access.program
    if argument is None or any(others) or access.pointers.ndim != 1:
        return ""
    offsets = (access.pointers.astype(np.int64) - argument.address) // argument.itemsize
    first, lanes = int(offsets[0]), offsets.size
    if (np.diff(offsets) != 1).any() or first <= pid * lanes:
        return ""
    return (
        f" Its block of {lanes} begins at element {first:,}, where pid * BLOCK_SIZE is "
        f"{pid * lanes:,}."
    )


def _all_rows(access: Access, argument: Argument | None, launch: Launch) -> str:
    """Whole rows or columns of a tile are outside, and its mask lets all of them pass."""
    if argument is None or access.pointers.ndim != 2:
        return ""
    must_be = "compare rows[:, None] with their end, and cols[None, :] with theirs"
    if {"n_rows", "n_cols"} <= launch.arguments.keys():
        must_be = "be (rows[:, None] < n_rows) & (cols[None, :] < n_cols)"
    outside = (argument.numbers(access.pointers) < 0) & access.active
    if (access.addresses < argument.address).any() or outside[access.active].all():
        return ""  # no comparison with an end leaves these out
    if outside.all() or not (lines := _lines_outside(access.active, outside)):
        return ""
    return _other_strides(access, argument) or (
        f" Some {lines} of this tile are outside, and its mask lets them pass: it must {must_be}."
    )


def _lines_outside(active: np.ndarray, outside: np.ndarray) -> str:
    """Whether rows or columns of a tile are outside; empty if neither shows.

    active, outside: [rows, columns]. Columns past the end may lie in the next row: then the mask
    tells, which is the same for all of them.
    """
    for axis, lines in enumerate(("rows", "columns")):
        whole = (outside | ~active).all(axis=1 - axis, keepdims=True)
        if (outside == (whole & active)).all():
            return lines
    for axis, lines in enumerate(("rows", "columns")):
        is_same, is_same_along = (
            (active == active.take([0], axis=each)).all() for each in (axis, 1 - axis)
        )
        if is_same and not is_same_along:
            return lines
    return ""


def _other_strides(access: Access, argument: Argument) -> str:
    """A tile steps otherwise than the tensor's axes do."""
    pointers, size = access.pointers.astype(np.int64), argument.itemsize
    steps = [np.unique(np.diff(pointers, axis=axis)) // size for axis in (0, 1)]
    if any(each.size != 1 for each in steps):  # rows picked one by one, or one row alone
        return ""
    down, along = (int(each[0]) for each in steps)
    strides = [*argument.strides]
    if down in strides and along in strides[strides.index(down) + 1 :]:
        return ""
    text = (
        f" Rows of this tile lie {down:,} apart and columns {along:,}, and {argument.name}'s axes"
    )
    return f"{text} {' and '.join(f'{each:,}' for each in strides)}: look at the strides."


def _sizes_given(launch: Launch, argument: Argument | None) -> str:
    """The sizes that the launch passed, for a tensor of several axes; not those of blocks, and no
    tuples of strides."""
    sizes = [
        f"{name} = {value}"
        for name, value in launch.arguments.items()
        if (type(value) is int and not (name.isupper() and len(name) > 1))
        or (_are_whole(value) and not name.startswith("stride"))
    ]
    is_flat = argument is None or len(argument.shape) < 2
    return "" if is_flat or not 0 < len(sizes) < 6 else f" It was given {', '.join(sizes)}."


def _are_whole(value: object) -> bool:
    return isinstance(value, tuple) and all(type(each) is int for each in value)


def why_unwritten(
    followed: Followed, out: torch.Tensor, index: tuple[int, ...], earlier: bool = False
) -> Cause:
    """Why an element of a result was never written. The line is the store's.

    earlier: whether a launch before this one has stored to the result.
    """
    launch, storage = followed.launch, out.untyped_storage()
    start, end = storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    arguments = ((name, each.untyped_storage()) for name, each in launch.named_tensors())
    name = next((name for name, each in arguments if each.data_ptr() == start), "")
    if not name:
        return "", None
    pairs = zip(followed.accesses, followed.lines, strict=True)
    stores = [(each, line) for each, line in pairs if each.kind != "load"]
    lines = {
        str(line)
        for each, line in stores
        if ((start <= each.pointers) & (each.pointers < end)).any()
    }
    writes = [(each, line) for each, line in stores if str(line) in lines]
    if not writes and earlier:
        return "", None
    if not writes:
        return f"No program stores to {name}: a kernel gives its result by tl.store.", None
    hands_out = any(each.kind == "update" for each in followed.accesses)  # places, or turns
    if hands_out or followed.writes(out, index):  # or it has stored what was there
        return "", None
    return (
        _kept_out(launch, writes, address_of(out, index))
        or _in_bytes(writes, out)
        or _by_the_grid(launch, writes, Argument.of(name, out))
    )


def why_wrong(followed: Followed, unread: str | None = None) -> Cause:
    """Why values are wrong: all programs load the same part of a tensor at one line, or all
    iterations do.

    unread: the tensor of which something is not read, as far as that is known: None if it is not,
        and empty if there is none.
    """
    loads: dict[str, list[Access]] = {}
    for each, line in zip(followed.accesses, followed.lines, strict=True):
        if each.kind == "load" and each.addresses.size:
            loads.setdefault(str(line), []).append(each)
    arguments = Arguments(followed.launch)
    for text, accesses in loads.items():
        addresses = accesses[0].addresses
        number = arguments.at(addresses)
        programs = {each.program for each in accesses}
        if number is None or len(programs) < math.prod(followed.launch.grid) or len(programs) < 2:
            continue
        argument = arguments.all[number]
        is_known = unread is not None and unread != argument.name
        is_same = all(np.array_equal(each.addresses, addresses) for each in accesses)
        if is_known or not is_same or np.unique(addresses).size == argument.elements:
            continue
        line = next(each for each in followed.lines if str(each) == text)
        if len(accesses) > len(programs):
            what = f"Each iteration loads the same part of {argument.name}"
            return f"{what}: its offsets must move on with the loop.", line
        where = argument.place(int(argument.numbers(addresses[:1])[0]))
        what = f"{where} alone" if addresses.size == 1 else "the same elements"
        own = "i" if addresses.size == 1 else "pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)"
        own = f"each must load its own, as {argument.name} + {own}"
        return f"All programs load {what}: {own}.", line
    return "", None


Writes = list[tuple[Access, OwnLine | None]]


def _kept_out(launch: Launch, writes: Writes, address: int) -> Cause | None:
    """A program comes to the element, and does not store it."""
    for each, line in writes:
        # A lane beside a tile may have the address of an element in the next row.
        if each.pointers.ndim < 2 and (each.pointers[~each.active] == address).any():
            program = program_text(each.program, grid=launch.grid)
            text = f"The mask keeps program {program} from storing it"
            for name, value in launch.arguments.items():
                is_odd = isinstance(value, (int, float)) and (value < 1 or value % 1)
                if name.startswith("n") and is_odd:
                    text += f", and {name} is {value}: look at the order of the arguments"
                    break
            return f"{text}.", line
    return None


def _in_bytes(writes: Writes, out: torch.Tensor) -> Cause | None:
    """Offsets are multiples of an element's size."""
    pointers, size = np.concatenate([each.pointers.ravel() for each, _ in writes]), out.itemsize
    offsets = pointers - np.uint64(out.data_ptr())
    if size == 1 or not offsets.any() or (offsets % np.uint64(size**2)).any():
        return None
    text = f"All stores go to multiples of {size}, the size of an element: offsets count elements"
    return f"{text}, and not bytes.", writes[0][1]


def _by_the_grid(launch: Launch, writes: Writes, out: Argument) -> Cause:
    """Programs are too few, or do the same, or begin elsewhere."""
    grid, line = grid_text(launch.grid), writes[0][1]
    for axis in sorted(launch.asked - {0}):
        if launch.grid[axis] == 1:
            return f"tl.program_id({axis}) is always 0, since the grid is {grid}.", line
    first = writes[0][0]
    for other, _ in writes:
        if other.program != first.program and np.isin(other.addresses, first.addresses).any():
            both = program_text(first.program, other.program, grid=launch.grid)
            own = "each must begin at its own, as pid * BLOCK_SIZE"
            return f"Programs {both} store to the same elements: {own}.", line
    shape = first.pointers.shape
    if len(grid) > 1 and len(shape) == 2 and min(shape) == 1 < max(shape):
        sizes = f"{shape[0]} x {shape[1]}"
        pairs = "a tile has rows[:, None] and cols[None, :] in its offsets"
        return f"Each program stores to {sizes} elements: {pairs}.", line
    if len(grid) > 1:
        along = " and ".join(f"{size:,} along axis {axis}" for axis, size in enumerate(grid))
        counts = "look at what the kernel counts along each"
        return f"No program stores there: the grid {grid} starts {along}; {counts}.", line
    for each, line in writes:
        if text := _begins_far_on(each, out):
            return text.strip(), line
    count = math.prod(launch.grid)
    if sum(each.pointers.size for each, _ in writes) >= out.elements:
        return "No program stores there: look at where each program's block begins.", line
    started = f"a grid of {grid} starts {count:,} program{'s' * (count != 1)}"
    return f"No program stores there: {started}, and triton.cdiv(n, BLOCK_SIZE) are needed.", None
