"""What an exported function is besides its machine code, kept as JSON in its header and library."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from course.errors import CourseError

from .identifiers import parameter_names
from .options import Options, counted
from .output_files import MARK
from .signature import Argument, Constant

JSON_LINE = "// course-aot: "


@dataclass(frozen=True)
class Function:
    """A kernel for one signature, as a C function."""

    name: str
    """The C function's, as add_1a2b3c4d_0d1d: out-name, hash, hints."""
    out_name: str
    kernel: str
    target: str
    triton: str
    """The version that compiled it."""
    arguments: tuple[Argument, ...]
    """All of the kernel's, with its constants."""
    grid: str
    options: Options
    """What the compiler was told besides the signature."""
    threads: int
    """Threads per program at a launch: a compiler that specializes warps may add some."""
    shared_bytes: int
    registers: int
    """Registers per thread."""
    stack_bytes: int = 0
    """Bytes of memory per thread: arrays, what is printed, values that find no register."""
    load_bytes: tuple[int, ...] = ()
    """Bytes that a thread's load instructions move from global memory, each number once."""
    file: str = ""
    """What the output was called. The files' names lack what stands behind its last dot."""
    text_hash: str = ""
    """Of the kernel's text and of all that it calls."""

    @property
    def runtime(self) -> tuple[Argument, ...]:
        """The arguments of run time, with those that must be 1."""
        return tuple(argument for argument in self.arguments if not argument.constant)

    @property
    def passed(self) -> tuple[Argument, ...]:
        """The parameters of this C function, after the stream."""
        return tuple(argument for argument in self.arguments if argument.passed)

    @property
    def hinted(self) -> list[Argument]:
        """The arguments of run time of which something is promised."""
        return [argument for argument in self.runtime if argument.hint]

    @property
    def constants(self) -> dict[str, Constant]:
        return {argument.name: argument.value for argument in self.arguments if argument.constant}

    @property
    def constants_text(self) -> str:
        """As "BLOCK = 1024"; empty if there are none."""
        return ", ".join(f"{name} = {value}" for name, value in self.constants.items())

    @cached_property
    def c_names(self) -> dict[str, str]:
        """Argument -> the C parameter's name."""
        return parameter_names([argument.name for argument in self.arguments])

    def call(self, arguments: Sequence[Argument]) -> str:
        """What a call in C passes on: the stream and these arguments."""
        return ", ".join(["stream", *(self.c_names[argument.name] for argument in arguments)])

    def parameters(self, arguments: Sequence[Argument]) -> str:
        """The parameters of a C prototype: the stream and these arguments."""
        typed = [f"{argument.scalar.c} {self.c_names[argument.name]}" for argument in arguments]
        return ", ".join(["CUstream stream", *typed])

    def conditions(self, sign: str, between: str, arguments: Sequence[Argument]) -> str:
        """The C condition under which hints of these arguments hold ("==", " && ") or one of them
        does not ("!=", " || "); empty if there are none."""
        names = [(self.c_names[each.name], each.hint) for each in arguments if each.hint]
        return between.join(
            f"{name} % 16 {sign} 0" if hint == 16 else f"{name} {sign} 1" for name, hint in names
        )

    @property
    def needs(self) -> str:
        """As "20 registers per thread, 0 bytes of stack, 0 bytes of shared memory per program;
        loads of 16 bytes"."""
        widths = " and ".join(map(str, self.load_bytes))
        return (
            f"{counted(self.registers, 'register')} per thread, {self.stack_bytes:,} bytes of "
            f"stack, {self.shared_bytes:,} bytes of shared memory per program"
            + (f"; loads of {widths} bytes" if widths else "")
        )

    @property
    def prototype(self) -> str:
        return f"CUresult {self.name}({self.parameters(self.passed)})"


def promises_of(arguments: Sequence[Argument]) -> str:
    """The arguments with hints, as "x_ptr:16, n:1"."""
    return ", ".join(f"{each.name}:{each.hint}" for each in arguments if each.hint)


@dataclass(frozen=True)
class Manifest:
    """What a header of ours holds: one function, or the variants behind a linked one."""

    functions: tuple[Function, ...]
    linked: str = ""
    """The linked function's name; empty in the header of one variant."""
    sources: tuple[str, ...] = ()
    """Where the variants' sources are, seen from a linked header."""

    @property
    def line(self) -> str:
        """The header's line, with a hash by which a change by hand is noticed."""
        text = json.dumps(asdict(self))
        return f"{JSON_LINE}{_digest(text)} {text}"


def read_header(path: Path) -> Manifest:
    """The manifest in a header of ours. Raises CourseError for any other file."""
    try:
        first, *lines = path.read_text(errors="replace").splitlines()[:3] or [""]
    except OSError as error:
        raise CourseError(f"{path} could not be read: {error.strerror}.") from error
    line = next((line for line in lines if line.startswith(JSON_LINE)), "")
    digest, _, text = line.removeprefix(JSON_LINE).partition(" ")
    if not first.startswith(MARK) or not text or digest != _digest(text):
        raise CourseError(
            f"{path} is no header that `course aot` wrote, or was changed: export the kernel again."
        )
    try:
        manifest = msgspec.convert(json.loads(text), Manifest)
    except msgspec.ValidationError:
        manifest = None
    if manifest is None or json.dumps(asdict(manifest)) != text:
        raise CourseError(
            f"{path} is not what this version of `course aot` writes: export the kernel again."
        )
    return manifest


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
