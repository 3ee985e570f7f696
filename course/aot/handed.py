"""handed: what the driver is handed when an exported function is called, without any launch.

The call is made in a child process, which has the fake driver.
"""

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from course.errors import CourseError
from course.isolate import runs_in
from course.type_names import kind_of

from . import fake_driver
from .abi import C_TYPES, Value, scalar_of
from .api import load
from .driver import Driver
from .loaded import manifests_in


@dataclass(frozen=True)
class CapturedArgument:
    """One of a launch's arguments, as the kernel reads it. Prints as a line."""

    name: str
    type: str
    """Triton's, as "*fp32" or "i32"."""
    content: bytes

    @property
    def value(self) -> int | float | None:
        """The number that these bytes are; None for an address."""
        scalar = scalar_of(self.type)
        return scalar.number(self.content) if scalar else None

    def __str__(self) -> str:
        number = self.value
        if self.type.startswith("*"):
            aligned = int.from_bytes(self.content, "little") % 16 == 0
            what = f"an address, {'a' if aligned else 'no'} multiple of 16"
        else:
            shown = format(number, ".9g") if isinstance(number, float) else number
            what = f"{self.content.hex(' ')}  {shown}"
        return f"{self.name:14} {self.type:6} {len(self.content)} bytes  {what}"


@dataclass(frozen=True)
class CapturedLaunch:
    """What the driver is handed at a launch. Prints as a table."""

    function: str
    """The variant that was taken."""
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    arguments: tuple[CapturedArgument, ...]
    extra_bytes: int
    """Bytes of what Triton adds: pointers to scratch memory."""

    def __str__(self) -> str:
        sizes, shared = " x ".join(map(str, self.grid)), f"{self.shared_bytes:,} bytes"
        lines = [
            f"{self.function}: grid {sizes}, {self.threads} threads, {shared} of shared memory",
            *(f"    {argument}" for argument in self.arguments),
        ]
        if self.extra_bytes:
            lines.append(f"    and {self.extra_bytes} bytes of Triton's own")
        return "\n".join(lines)

    __repr__ = __str__


@dataclass(frozen=True)
class TensorPlace:
    """What matters of a tensor whose elements nobody reads."""

    dtype: str
    """PyTorch's, as "float16"."""
    past: int
    """Bytes from a multiple of 16 to its first element."""


PlainValue = TensorPlace | bool | int | float
"""An argument of a call, as the child is given it."""


def handed(library: str | Path, *values: Value, algo: int = 0) -> CapturedLaunch:
    """What the driver is handed when a library's function is called. Nothing is launched.

    library: what `aot.build` returned. values: tensors and numbers, in order. algo: which
        algorithm of a linked function.
    Raises CourseError if the function refuses the values.
    """
    if not isinstance(library, (str, os.PathLike)):
        raise CourseError(
            f"handed takes the path that aot.build returned; this is {kind_of(library)}."
        )
    if type(algo) is not int:
        raise CourseError(f"algo is {algo!r:.60}: give the number of an algorithm, as 0.")
    if not Path(library).is_file():
        raise CourseError(f"There is no library {library}: give the path that aot.build returned.")
    return captured_launch(str(Path(library).absolute()), [plain(value) for value in values], algo)


def plain(value: Value) -> PlainValue:
    """A value of a call as the child can have it. Raises CourseError for what no call takes."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_meta or value.is_nested:
            what = "A nested tensor" if value.is_nested else f"A tensor of layout {value.layout}"
            what = "A tensor on meta" if value.is_meta else what
            raise CourseError(f"{what} has no address to hand over: give a dense one with memory.")
        within = value.data_ptr() % value.itemsize
        if within:
            begins = f"A tensor begins {within} bytes into an element of {value.dtype}"
            raise CourseError(f"{begins}: copy it first.")
        return TensorPlace(str(value.dtype).removeprefix("torch."), value.data_ptr() % 16)
    if not isinstance(value, (bool, int, float)):
        raise CourseError(f"A call takes tensors and numbers; {value!r:.60} is neither.")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise CourseError(f"{value!r:.60} fits no integer of C; for a float, write it as one.")
    return value


def remade(value: PlainValue) -> Value:
    """The value again; for a tensor, one that begins as far past a multiple of 16 bytes."""
    if not isinstance(value, TensorPlace):
        return value
    dtype = getattr(torch, value.dtype)
    memory = torch.empty(64, dtype=torch.int8)
    start = -memory.data_ptr() % 16 + value.past
    return memory[start : start + dtype.itemsize].view(dtype)


@runs_in("compile")
def captured_launch(library: str, values: list[PlainValue], algo: int = 0) -> CapturedLaunch:
    """The launch of a library's function with these values.

    Raises CourseError if it refuses them, or launches nothing.
    """
    loaded = load(library, driver=fake_driver)
    functions = list(loaded.functions.values())
    function = next((each for each in functions if each.algorithms), functions[0])
    tensors = [remade(value) for value in values]
    variants = [each for one in manifests_in(loaded._library) for each in one.functions]
    with fake_driver.told(fake_driver.CAPABILITIES, variants[0].target.removeprefix("sm_")):
        launch = _launch(function.name, lambda: function(*tensors, stream=0, algo=algo))
    for variant in variants:
        # The driver is told of an unloading by that variant alone which was loaded for the launch.
        with fake_driver.recorded() as calls:
            loaded._library[f"unload_{variant.name}"]()
        if calls:
            arguments = [(each.name, str(each.type)) for each in variant.passed]
            return _captured(variant.name, arguments, launch)
    raise CourseError("No variant was loaded.")


@runs_in("compile")
def captured_c_launch(
    library: str,
    function: str,
    c_types: list[str],
    arguments: list[tuple[str, str]],
    values: list[PlainValue],
) -> CapturedLaunch:
    """The launch of a C function that has nothing of ours around it.

    c_types: of its parameters, after the stream. arguments: name and Triton's type of each.
    """
    driver = Driver(fake_driver)
    called = ctypes.CDLL(library)[function]
    called.argtypes = [ctypes.c_void_p, *(C_TYPES[c_type] for c_type in c_types)]
    tensors = [remade(value) for value in values]
    numbers = [each.data_ptr() if isinstance(each, torch.Tensor) else each for each in tensors]
    codes: list[int] = []
    launch = _launch(function, lambda: codes.append(driver.call(0, called, None, *numbers)))
    driver.check(function, codes[0])  # without a launch Triton's own C returns what it finds
    return _captured(function, arguments, launch)


def _launch(function: str, call: Callable[[], None]) -> fake_driver.Call:
    with fake_driver.recorded() as calls:
        call()
    launches = [each for each in calls if each.name == "cuLaunchKernel"]
    if not launches:
        words = f"{function} launches nothing: its grid has a 0 in it."
        raise CourseError(words, kind="no launch")
    return launches[0]


def _captured(
    function: str, arguments: Sequence[tuple[str, str]], launch: fake_driver.Call
) -> CapturedLaunch:
    contents = launch.arguments
    return CapturedLaunch(
        function,
        launch.grid,
        launch.details["block"][0],
        launch.details["shared"],
        tuple(
            CapturedArgument(name, type, content)
            for (name, type), content in zip(arguments, contents, strict=False)
        ),
        sum(map(len, contents[len(arguments) :])),
    )
