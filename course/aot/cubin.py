"""What a cubin says of its kernel: the parameters that it takes, and its registers. Read from the ELF file itself."""

import struct
from dataclasses import dataclass

from course.elf import sections
from course.errors import CourseError

# .nv.info is a list of (format, attribute, two bytes), where format 4 is followed by as many bytes as the two say.
SIZED = 4
REGISTER_COUNT, PARAMETER = 0x2F, 0x17


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True)
class Cubin:
    """A kernel's machine code. Prints as its parameters."""

    code: bytes
    symbol: str
    parameters: tuple[Parameter, ...]
    """In order. After the kernel's own come Triton's: pointers to scratch memory."""
    registers: int
    """Of a thread."""

    def __str__(self) -> str:
        return f"{self.symbol}: " + ", ".join(
            f"{each.size} bytes at {each.offset}" for each in self.parameters
        )

    __repr__ = __str__


def read_cubin(code: bytes, symbol: str) -> Cubin:
    """Raises CourseError where it is no cubin with that kernel."""
    try:
        found = sections(code)
        own = found[f".nv.info.{symbol}"]
        counts = [
            struct.unpack("<II", value)[1]
            for kind, value in _attributes(found[".nv.info"])
            if kind == REGISTER_COUNT
        ]
        parameters = {}
        for kind, value in _attributes(own):
            if kind == PARAMETER:
                _, ordinal, offset, flags = struct.unpack("<IHHI", value)
                parameters[ordinal] = Parameter(offset, flags >> 18)
        in_order = tuple(parameters[ordinal] for ordinal in range(len(parameters)))
    except (KeyError, IndexError, struct.error) as error:
        raise CourseError(
            f"The machine code of {symbol} is not read: it has no {error}."
        ) from error
    return Cubin(code, symbol, in_order, max(counts, default=0))


def _attributes(content: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at + 4 <= len(content):
        form, kind, length = struct.unpack_from("<BBH", content, at)
        at += 4
        if form == SIZED:
            found.append((kind, content[at : at + length]))
            at += length
    return found
