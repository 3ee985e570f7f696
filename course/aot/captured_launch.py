"""handed: what the driver is handed when an exported function is called, found on the stand-in in a child process."""

import ctypes
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from course.errors import CourseError
from course.lowering.api import call_compiler

from . import fake_driver as standin
from . import load
from .loading import Loaded, LoadedFunction
from .manifest import Function
from .writing import INDEX

FORMATS = {
    "i1": "?", "u1": "?", "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q",
    "fp16": "e", "fp32": "f", "fp64": "d",
}  # fmt: skip
"""Of Python's struct, by Triton's type."""


@dataclass(frozen=True)
class Argument:
    """One of a launch's arguments, as the kernel reads it. Prints as a line."""

    name: str
    type: str
    """Triton's, as "*fp32" or "i32"."""
    bytes: bytes

    @property
    def value(self) -> Any:
        """The number that these bytes are; None for an address."""
        if self.type == "bf16":
            return struct.unpack("<f", bytes(2) + self.bytes)[0]
        if self.type not in FORMATS:
            return None
        return struct.unpack(f"<{FORMATS[self.type]}", self.bytes)[0]

    def __str__(self) -> str:
        if self.type.startswith("*"):
            aligned = int.from_bytes(self.bytes, "little") % 16 == 0
            what = f"an address, {'a' if aligned else 'no'} multiple of 16"
        else:
            number = self.value
            shown = (
                ""
                if number is None
                else format(number, ".9g")
                if isinstance(number, float)
                else str(number)
            )
            what = f"{self.bytes.hex(' ')}  {shown}"
        return f"{self.name:14} {self.type:6} {len(self.bytes)} bytes  {what}".rstrip()


@dataclass(frozen=True)
class Handed:
    """What the driver is handed at a launch. Prints as a table."""

    function: str
    """The variant that was taken."""
    grid: tuple[int, ...]
    threads: int
    shared_bytes: int
    arguments: tuple[Argument, ...]
    more: int
    """Bytes of what Triton adds: pointers to scratch memory."""

    def __str__(self) -> str:
        sizes = " x ".join(map(str, self.grid))
        lines = [
            f"{self.function}: grid {sizes}, {self.threads} threads, {self.shared_bytes:,} bytes of shared memory"
        ]
        lines += [f"    {each}" for each in self.arguments]
        return "\n".join(
            [*lines, f"    and {self.more} bytes of Triton's own"] if self.more else lines
        )

    __repr__ = __str__


def handed(library: str | Path, *values: Any, algo: int = 0) -> Handed:
    """What the driver is handed when a library's function is called with these values. Nothing is launched.

    library: what `aot.build` returned. values: tensors and numbers, in order. algo: which algorithm, where it is linked.
    Raises CourseError where the function refuses them.
    """
    if not Path(library).is_file():
        raise CourseError(f"There is no library {library}: give the path that aot.build returned.")
    (found,) = handed_all(library, [[described(value) for value in values]], algo)
    if "problem" in found:
        raise CourseError(found["problem"])
    return from_json(found)


def handed_all(library: str | Path, calls: list[list[Any]], algo: int = 0) -> list[dict[str, Any]]:
    """Of each call, its values as `described` has them, what `from_json` takes, or the "problem"."""
    found: list[dict[str, Any]] = call_compiler(_call, str(Path(library).absolute()), calls, algo)
    return found


def from_json(found: dict[str, Any]) -> Handed:
    arguments = tuple(
        Argument(name, kind, bytes.fromhex(text)) for name, kind, text in found["arguments"]
    )
    return Handed(
        found["function"],
        tuple(found["grid"]),
        found["threads"],
        found["shared"],
        arguments,
        found["more"],
    )


def described(value: Any) -> Any:
    """A value in JSON: of a tensor, its dtype and how far past a multiple of 16 bytes it begins."""
    if isinstance(value, torch.Tensor):
        if value.data_ptr() % value.itemsize:
            raise CourseError(
                f"A tensor begins {value.data_ptr() % value.itemsize} bytes into an element of {value.dtype}: copy it first."
            )
        return {"dtype": str(value.dtype).removeprefix("torch."), "past": value.data_ptr() % 16}
    if not isinstance(value, (bool, int, float)):
        raise CourseError(f"A call takes tensors and numbers; {value!r:.60} is neither.")
    return value


def made(value: Any) -> Any:
    """A described value again; of a tensor, one that begins as far past a multiple of 16 bytes."""
    if not isinstance(value, dict):
        return value
    dtype = getattr(torch, value["dtype"])
    memory = torch.empty(64, dtype=torch.int8)
    start = -memory.data_ptr() % 16 + value["past"]
    return memory[start : start + dtype.itemsize].view(dtype)


def _call(library: str, calls: list[list[Any]], algo: int) -> list[dict[str, Any]]:
    """In the child."""
    loaded = load(library, driver=standin)
    listed = list(loaded.functions.values())
    asked = next((each for each in listed if each.algorithms), listed[0])
    return [_handed(loaded, asked, [made(value) for value in values], algo) for values in calls]


def _handed(loaded: Loaded, asked: LoadedFunction, values: list[Any], algo: int) -> dict[str, Any]:
    with standin.recorded() as calls:
        try:
            asked(*values, stream=0, algo=algo)
        except CourseError as error:
            return {"problem": str(error)}
    launched = [each for each in calls if each.name == "cuLaunchKernel"]
    if not launched:
        return {"problem": f"{asked.name} launches nothing: its grid has a 0 in it."}
    taken = _taken(loaded)
    return launch_json(
        taken.name, [(each.name, each.type.name) for each in taken.passed if each.type], launched[0]
    )


def _taken(loaded: Loaded) -> Function:
    """The one variant that was loaded to launch it. It is unloaded."""
    text = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(loaded._library, INDEX)))
    for content in json.loads(text):
        for each in content.get("functions") or [content["function"]]:
            with standin.recorded() as calls:
                loaded._library[f"unload_{each['name']}"]()
            if calls:
                return Function.from_json(each)
    raise CourseError("No variant was loaded.")


def launch_json(
    function: str, arguments: list[tuple[str, str]], launch: standin.Call
) -> dict[str, Any]:
    """A recorded launch in JSON, its bytes with the names and types of the kernel's arguments."""
    texts = [each.hex() for each in launch.arguments]
    return {
        "function": function,
        "grid": launch.grid,
        "threads": launch.details["block"][0],
        "shared": launch.details["shared"],
        "arguments": [
            (name, kind, text) for (name, kind), text in zip(arguments, texts, strict=False)
        ],
        "more": sum(len(each) // 2 for each in texts[len(arguments) :]),
    }
