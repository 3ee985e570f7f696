"""load: a built library's functions, called with tensors."""

import ctypes
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from course.errors import CourseError

from .driver import Driver, DriverLibrary
from .manifest import Function
from .sealing import intact
from .signature import Argument, counted
from .values import converter
from .writing import INDEX

C_TYPES: dict[str, Any] = {
    "int8_t": ctypes.c_int8, "int16_t": ctypes.c_int16, "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64,
    "uint8_t": ctypes.c_uint8, "uint16_t": ctypes.c_uint16, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64,
    "float": ctypes.c_float, "double": ctypes.c_double, "CUdeviceptr": ctypes.c_uint64,
}  # fmt: skip
INVALID_VALUE = 1


class LoadedFunction:
    """One function of a library. Prints as its parameters."""

    def __init__(
        self,
        name: str,
        arguments: tuple[Argument, ...],
        algorithms: int,
        function: Any,
        driver: Driver,
    ) -> None:
        """algorithms: how many there are to choose from; 0 where there is no choice. function: the library's own."""
        self.name, self.arguments, self.algorithms = name, arguments, algorithms
        types = [each.type for each in arguments if each.type]
        function.argtypes = [
            ctypes.c_void_p,
            *(C_TYPES[each.c] for each in types),
            *([ctypes.c_int] if algorithms else []),
        ]
        self._function, self._driver = function, driver
        self._converters = [
            converter(f"{name}: {each.name}", type)
            for each, type in zip(arguments, types, strict=True)
        ]

    def __call__(self, *values: Any, stream: Any = None, algo: int = 0) -> None:
        """Launch it: tensors for pointers, numbers for the rest; in order.

        stream: a torch.cuda.Stream or its handle; by default PyTorch's current one. algo: which algorithm.
        Raises CourseError for a value that does not fit its type, and where the function returns an error.
        """
        if len(values) != len(self.arguments):
            names = ", ".join(each.name for each in self.arguments)
            raise CourseError(
                f"{self.name} takes {len(self.arguments)} arguments and was given {len(values)}: {names}."
            )
        numbers = [convert(value) for convert, value in zip(self._converters, values, strict=True)]
        device = self._device(values)
        if stream is None:
            stream = 0 if self._driver.device_type == "cpu" else torch.cuda.current_stream(device)
        handle = getattr(stream, "cuda_stream", stream)
        if type(handle) is not int or not 0 <= handle < 2**64:
            raise CourseError(
                f"{self.name}: the stream is {stream!r:.60}, and must be a torch.cuda.Stream or its handle, an int."
            )
        # One that was not linked is the only one of its kind.
        if type(algo) is not int or not 0 <= algo < max(1, self.algorithms):
            has = counted(max(1, self.algorithms), "algorithm")
            raise CourseError(f"{self.name} has {has}, numbered from 0, and none is {algo!r:.60}.")
        if self.algorithms:
            numbers.append(algo)
        result = self._driver.call(device, self._function, handle, *numbers)
        if result:
            self._driver.check(self.name, result, self._reason if result == INVALID_VALUE else "")

    def _device(self, values: Sequence[Any]) -> int:
        """The number of the device that all the tensors are on."""
        devices = {value.device for value in values if isinstance(value, torch.Tensor)}
        wanted = self._driver.device_type
        if any(device.type != wanted for device in devices) or len(devices) > 1:
            where = ", ".join(sorted(map(str, devices)))
            raise CourseError(
                f"{self.name}: the tensors are on {where}, and must be on one device of type {wanted}."
            )
        if wanted == "cpu":
            return 0
        return devices.pop().index if devices else torch.cuda.current_device()

    @property
    def _reason(self) -> str:
        promises = ", ".join(f"{each.name}:{each.hint}" for each in self.arguments if each.hint)
        return (
            ": a promise of the signature does not hold, or the grid is too large, negative or divides by 0"
            + (f" (promised: {promises})" if promises else "")
        )

    def __str__(self) -> str:
        parts = [
            f"{each.name}: {each.type.name}{f':{each.hint}' if each.hint else ''}"
            for each in self.arguments
            if each.type
        ]
        return f"{self.name}({', '.join(parts)})" + (
            f", {counted(self.algorithms, 'algorithm')}" if self.algorithms else ""
        )

    __repr__ = __str__


@dataclass(frozen=True)
class Loaded:
    """A library's functions, by name: `.functions["unload"]` is one that is called as something here. Prints them."""

    path: Path
    functions: dict[str, LoadedFunction]
    _library: ctypes.CDLL = field(repr=False)
    _driver: Driver = field(repr=False)

    def __getattr__(self, name: str) -> LoadedFunction:
        functions = self.__dict__.get("functions", {})  # nothing yet, where a copy is being made
        if name not in functions:
            raise AttributeError(
                f"The library has no function {name!r}: it has {', '.join(functions)}."
            )
        function: LoadedFunction = functions[name]
        return function

    def unload(self) -> None:
        """Give back the kernels' memory on the GPU; the next launch loads them again. Raises CourseError on an error."""
        for name in self.functions:
            if hasattr(self._library, f"unload_{name}"):
                self._driver.check(f"unload_{name}", self._library[f"unload_{name}"]())

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self.functions])

    def __str__(self) -> str:
        return "\n".join([f"{self.path}", *(f"    {each}" for each in self.functions.values())])

    __repr__ = __str__


def load(library: str | Path, driver: DriverLibrary | None = None) -> Loaded:
    """The functions of a library that `build` made, to be called with tensors.

    driver: `course.aot.fake_driver`, which launches nothing and records what it is told, with tensors on the CPU; by default
        NVIDIA's own. One process can use one of the two.
    Raises CourseError where it is no such library, or there is no driver.
    """
    path = Path(library)
    if not path.is_file():
        raise CourseError(f"There is no library {path}: make it with aot.build.")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CourseError(f"{path} could not be read: {error.strerror}.") from error
    if not intact(content):
        raise CourseError(
            f"{path} is no library that aot.build made, or it was cut off or changed since: build it again."
        )
    found_driver = Driver(driver)
    # Loaded as a copy under a name of its own: the loader would give back the library that was at this path before.
    with tempfile.TemporaryDirectory(prefix="course-aot-") as folder:
        copy = Path(folder) / path.name
        try:
            copy.write_bytes(content)
            loaded = ctypes.CDLL(str(copy))
            index = ctypes.c_char.in_dll(loaded, INDEX)
        except (OSError, ValueError) as error:
            raise CourseError(
                f"{path} is no library that aot.build made: {str(error).replace(str(copy), str(path))}."
            ) from error
    described = json.loads(ctypes.string_at(ctypes.addressof(index)))
    functions = {each.name: each for each in _functions(described, loaded, found_driver)}
    return Loaded(path, functions, loaded, found_driver)


def _functions(
    content: list[dict[str, Any]], library: ctypes.CDLL, driver: Driver
) -> Iterator[LoadedFunction]:
    """content: what the headers said that the library was built from."""
    variants = [Function.from_json(each["function"]) for each in content if "function" in each]
    for function in variants:
        pointer = library[function.name]
        yield LoadedFunction(function.name, function.passed, 0, pointer, driver)
        if len(variants) == 1:  # known by its short name too
            yield LoadedFunction(function.out_name, function.passed, 0, pointer, driver)
    for each in content:
        if "linked" in each:
            name, first = each["linked"], Function.from_json(each["functions"][0])
            arguments = tuple(
                replace(argument, hint=None) for argument in first.runtime
            )  # hints choose, and bind nobody
            yield LoadedFunction(
                name, arguments, library[f"{name}_get_num_algos"](), library[name], driver
            )
