"""Accesses outside a launch's tensors, and what else may be wrong with it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from course.gpus.limits import WIDEST_BYTES
from course.triton_internals.errors import CannotInterpretError
from course.triton_internals.interpreter import Access, Kind, Launch, Program

from .address_map import Argument, Arguments
from .likely_causes import why_outside
from .own_line import OwnLine, running_line
from .records import program_text

LEAST_ADDRESS = 2**40
"""64-bit systems map memory above; numbers of elements, tokens and rows do not come so far."""
MOST_ADDRESS = 2**57
NEAR_BYTES = 2**31
"""What a number that may be an address is taken to lead to."""
VERBS: dict[Kind, str] = {"load": "read", "store": "wrote", "update": "updated"}


@dataclass(frozen=True)
class Problem:
    """What is wrong with a function, apart from a crash."""

    kind: Literal[
        "wrong", "raised", "race", "reads outside", "writes outside", "false promise"
    ]  # fmt: skip
    text: str
    """A sentence."""
    program: Program | None = None
    """The program that did it, if one is to blame, …"""
    launch: int = 0
    """… and the number of its launch."""
    index: tuple[int, ...] | None = None
    """The first wrong element of the result, if values are wrong."""
    what: str = ""
    """Which of its kind it is, by a short name: "shape", an exception's class, a tensor's element
    counted from its first one, as "x_ptr 300"."""
    line: OwnLine | None = None
    """The line of the reader's code that did it, if one is known."""
    guess: str = ""
    """The part of the text that says why, which may be for another reason."""

    @property
    def reason(self) -> str:
        """The line, if one is known, and below it the sentence."""
        return "\n".join(filter(None, [str(self.line or ""), self.text]))


class FoundError(Exception):
    """A launch is stopped by a problem that was found in it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


class OutsideError(FoundError):
    """A kernel was about to touch memory that belongs to none of its arguments."""


def false_promise(program: Program, promise: str) -> Problem:
    """The problem "program p promises …", which does not hold: see `promises_held`."""
    promise_text = f"Program {program_text(program)} promises {promise}"
    text = f"{promise_text}: promise only what always holds."
    return Problem("false promise", text, program, line=running_line())


def refuse_promise(program: Program, promise: str) -> None:
    """Stop a launch that promises the compiler what does not hold."""
    raise FoundError(false_promise(program, promise))


def may_go_elsewhere(access: Access) -> bool:
    """Whether a compiled access may touch other places than it does here, where the compiler is
    told of neighbors and of divisors that are not there.

    Along an axis on which some lanes are neighbors, it may take as many as fill the widest
    instruction for neighbors, which begin at a multiple of their bytes.
    """
    for axis, size in enumerate(access.pointers.shape):
        width = min(size, max(1, WIDEST_BYTES // access.itemsize))
        if width < 2:
            continue
        ends = np.moveaxis(access.pointers, axis, -1).reshape(-1, width)
        active = np.moveaxis(access.active, axis, -1).reshape(-1, width).any(axis=1)
        neighbors = np.diff(ends.astype(np.int64)) == access.itemsize
        aligned = ends[:, 0] % np.uint64(width * access.itemsize) == 0
        if neighbors.any() and not (neighbors.all(axis=1) & aligned)[active].all():
            return True
    return False


def outside(
    access: Access, place: str, line: OwnLine | None, launch: Launch, what: str = "",
    argument: Argument | None = None, before: Access | None = None,
) -> Problem:  # fmt: skip
    """The problem "program p read or wrote `place`, outside its tensor", at this line.

    argument: the tensor that is meant, if that is known.
    before: what the program did in this tensor by the same line before, if anything.
    """
    kind: Literal["reads outside", "writes outside"]
    kind = "reads outside" if access.kind == "load" else "writes outside"
    program = program_text(access.program, grid=launch.grid)
    text = f"Program {program} {VERBS[access.kind]} {place}."
    why = why_outside(access, argument, launch, before)
    return Problem(kind, text + why, access.program, line=line, what=what, guess=why)


class Storages:
    """The storages among a launch's arguments, which its accesses must not leave."""

    def __init__(self, launch: Launch, copied: bool = False) -> None:
        """copied: whether the tensors are copies, so that an address in one leads nowhere."""
        self._launch = launch
        storages = [tensor.untyped_storage() for tensor in launch.tensors]
        self.places = [(storage.data_ptr(), storage.nbytes()) for storage in storages]
        """The address and the bytes of each."""
        self._arguments = Arguments(launch)
        self._copied, self._hold_pointers = copied, any(map(_may_hold_pointers, launch.tensors))
        if not copied:
            numbers = (each for each in launch.arguments.values() if type(each) is int)
            addresses = (each for each in numbers if LEAST_ADDRESS <= each < MOST_ADDRESS)
            self.places += [(address, NEAR_BYTES) for address in addresses]

    def stop_outside(self, access: Access) -> None:
        """Raise OutsideError for an access outside of all, unless an argument may hold addresses
        itself; of copies CannotInterpretError then."""
        if self._hold_pointers and not self._copied:
            return
        inside = np.zeros(access.addresses.shape, dtype=bool)
        ends = access.addresses + np.uint64(access.itemsize)
        for start, size in self.places:
            inside |= (access.addresses >= start) & (ends <= start + size)
        if inside.all():
            return
        if self._hold_pointers:
            raise CannotInterpretError("a copy of a launch whose tensors hold addresses")
        place = "memory that is none of the kernel's arguments"
        number = self._arguments.at(access.addresses)
        argument = None if number is None else self._arguments.all[number]
        if argument is not None and len(argument.shape) == 1:
            elements = argument.numbers(access.addresses)
            if (elements >= 0).any():  # so it is this tensor that is meant
                stray = int(access.addresses[~inside][0]) - argument.address
                element, name = stray // argument.itemsize, argument.name
                there = (argument.end - argument.address) // argument.itemsize
                place += f": element {element:,} of {name}, which has {argument.elements:,}"
                if 0 <= element < argument.elements:  # they share memory, as expand() lets them
                    place += f" and memory for {there:,} (its strides are {argument.strides})"
        found = outside(access, place, running_line(), self._launch, argument=argument)
        raise OutsideError(found)


def _may_hold_pointers(tensor: torch.Tensor) -> bool:
    """Whether it holds addresses: 64-bit integers as large as addresses are."""
    is_wide = tensor.dtype in (torch.int64, torch.uint64)
    return is_wide and bool((tensor.view(torch.int64) >= LEAST_ADDRESS).any())


@dataclass(frozen=True)
class Region:
    """A tensor of which it is known where its elements lie."""

    argument: Argument
    """Where its elements lie, and its name in a sentence: the kernel's own, or "its output"."""
    start: int
    """The address where its storage begins."""
    inside: torch.Tensor
    """For each element of the storage, whether it is the tensor's own."""
    any_unwritten: Callable[[np.ndarray], bool]
    """Whether nothing has been written yet to one of these addresses, wherever they are."""

    @property
    def end(self) -> int:
        return self.start + self.inside.numel() * self.argument.itemsize

    def holds(self, addresses: np.ndarray) -> np.ndarray:
        """Whether each byte is the tensor's own; a byte past the storage counts as its last one."""
        elements = (addresses - np.uint64(self.start)) // np.uint64(self.argument.itemsize)
        last = self.inside.numel() - 1
        owned: np.ndarray = self.inside.numpy()[np.minimum(elements.astype(np.int64), last)]
        return owned


def stray(
    launch: Launch, accesses: list[Access], lines: list[OwnLine | None], regions: list[Region]
) -> Problem | None:
    """The first access to a known tensor's storage that is not to the tensor itself.

    lines: of each access, where the reader's code makes it.
    """
    addresses = np.concatenate([access.addresses for access in accesses])
    last_bytes = [access.addresses + np.uint64(access.itemsize - 1) for access in accesses]
    ends = np.concatenate(last_bytes)
    firsts = []
    for region in regions:
        here = np.flatnonzero((addresses >= region.start) & (addresses < region.end))
        strays = here[~(region.holds(addresses[here]) & region.holds(ends[here]))]
        if strays.size:
            firsts.append((int(strays[0]), region))
    if not firsts:
        return None
    lane, region = min(firsts, key=lambda first: first[0])
    lanes_before = np.cumsum([access.addresses.size for access in accesses])
    number = int(np.searchsorted(lanes_before, lane, side="right"))
    argument, address = region.argument, int(addresses[lane])
    what = f"{argument.name} {(address - argument.address) // argument.itemsize}"
    access, line = accesses[number], lines[number]
    before = [
        each
        for each, its_line in zip(accesses[:number], lines, strict=False)
        if each.program == access.program and its_line == line and each.addresses.size
        and argument.address <= each.addresses[0] < argument.end
    ]  # fmt: skip
    last = before[-1] if before else None
    return outside(access, argument.beside(address), line, launch, what, argument, last)
