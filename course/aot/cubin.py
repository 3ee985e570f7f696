"""A kernel's machine code, and what it says of the kernel: parameters, registers, stack."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from course.elf import sections
from course.errors import CourseError

from .signature import Argument

SIZED = 4
"""The format in .nv.info, a list of (format, attribute, two bytes), in which the two bytes say how
many more follow."""
REGISTER_COUNT, FRAME_SIZE, PARAMETER = 0x2F, 0x11, 0x17
SCRATCH = ("global_scratch", "profile_scratch")
"""The pointers that Triton adds to a kernel's own parameters, in order."""


@dataclass(frozen=True)
class Cubin:
    """A kernel's machine code."""

    code: bytes
    symbol: str
    sizes: tuple[int, ...]
    """Bytes of each parameter. After the kernel's own come Triton's: pointers to scratch memory."""
    registers: int
    """Registers per thread."""
    stack_bytes: int = 0
    """Bytes of memory per thread: arrays, what is printed, values that find no register."""


def read_cubin(code: bytes, symbol: str) -> Cubin:
    """Reads the ELF file. Raises CourseError if it is no cubin with that kernel."""
    try:
        content = sections(code)
        whole, own = content[".nv.info"], content[f".nv.info.{symbol}"]
        registers, stack = (
            max((struct.unpack("<II", value)[1] for value in _values(whole, wanted)), default=0)
            for wanted in (REGISTER_COUNT, FRAME_SIZE)
        )
        sizes = {}
        for value in _values(own, PARAMETER):
            _, place, _, flags = struct.unpack("<IHHI", value)
            sizes[place] = flags >> 18
        in_order = tuple(sizes[place] for place in range(len(sizes)))
    except (KeyError, IndexError, struct.error) as error:
        raise CourseError(
            f"The machine code of {symbol} is not read: it has no {error}."
        ) from error
    return Cubin(code, symbol, in_order, registers, stack)


def _values(content: bytes, wanted: int) -> Iterator[bytes]:
    """The values of an attribute in a section .nv.info."""
    place = 0
    while place + 4 <= len(content):
        form, attribute, length = struct.unpack_from("<BBH", content, place)
        place += 4
        if form == SIZED:
            if attribute == wanted:
                yield content[place : place + length]
            place += length


def check_parameters(arguments: Sequence[Argument], cubin: Cubin) -> None:
    """Raise CourseError unless the kernel's parameters are what the C function passes, in bytes.

    cuLaunchKernel is told no sizes: with another type it would read wrong values with no error.
    """
    passed = [argument for argument in arguments if argument.passed]
    scratch = cubin.sizes[len(passed) :]
    if len(cubin.sizes) < len(passed) or scratch not in ((), (8,), (8, 8)):
        raise CourseError(
            f"{cubin.symbol} takes {len(cubin.sizes)} parameters where {len(passed)} arguments and "
            "Triton's scratch memory were expected: this version of Triton passes something else, "
            "and export does not know what."
        )
    for argument, size in zip(passed, cubin.sizes, strict=False):
        if argument.scalar.size != size:
            raise CourseError(
                f"{cubin.symbol} takes {argument.name} as {size} bytes, and {argument.type} has "
                f"{argument.scalar.size}: nothing was written, since it would read a wrong value."
            )
