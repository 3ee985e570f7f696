"""A built library in this process, its functions called with tensors and numbers."""

import ctypes
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import torch

from course.errors import CourseError

from .abi import C_TYPES, Value, converter
from .driver import Driver
from .manifest import Manifest, promises_of
from .options import counted
from .output_files import INDEX
from .signature import Argument

INVALID_VALUE = 1
"""CUDA_ERROR_INVALID_VALUE."""


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
        """algorithms: how many there are to choose from; 0 for a function that takes no number of
        one. function: the library's own, of ctypes."""
        self.name, self.arguments, self.algorithms = name, arguments, algorithms
        types = [C_TYPES[argument.scalar.c] for argument in arguments]
        number = [ctypes.c_int] if algorithms else []
        function.argtypes = [ctypes.c_void_p, *types, *number]
        self._function, self._driver = function, driver
        self._converters = [
            converter(f"{name}: {argument.name}", argument.scalar) for argument in arguments
        ]

    def __call__(
        self, *values: Value, stream: "torch.cuda.Stream | int | None" = None, algo: int = 0
    ) -> None:
        """Launch it: tensors for pointers, numbers for the rest; in order.

        stream: PyTorch's, or its handle; by default PyTorch's current one. algo: which algorithm.
        Raises CourseError for a value that does not fit its type, and for an error that comes back.
        """
        if len(values) != len(self.arguments):
            names = ", ".join(argument.name for argument in self.arguments)
            takes = f"{self.name} takes {len(self.arguments)} arguments"
            raise CourseError(f"{takes} and was given {len(values)}: {names}.")
        numbers = [convert(value) for convert, value in zip(self._converters, values, strict=True)]
        device = self._device({value.device for value in values if isinstance(value, torch.Tensor)})
        handle = self._handle(stream, device)
        # A function of one variant has one algorithm, and takes no number of it.
        if type(algo) is not int or not 0 <= algo < max(1, self.algorithms):
            has = counted(max(1, self.algorithms), "algorithm")
            raise CourseError(f"{self.name} has {has}, numbered from 0, and none is {algo!r:.60}.")
        if self.algorithms:
            numbers.append(algo)
        result = self._driver.call(device, self._function, handle, *numbers)
        if result:
            self._driver.check(self.name, result, self._reason if result == INVALID_VALUE else "")

    def _device(self, devices: set[torch.device]) -> int:
        """The number of the device that all tensors are on."""
        kind = self._driver.device_type
        if any(device.type != kind for device in devices) or len(devices) > 1:
            where = ", ".join(sorted(map(str, devices)))
            wanted = f"must be on one device of type {kind}"
            raise CourseError(f"{self.name}: the tensors are on {where}, and {wanted}.")
        if kind == "cpu":
            return 0
        number = devices.pop().index if devices else torch.cuda.current_device()
        return int(number)

    def _handle(self, stream: "torch.cuda.Stream | int | None", device: int) -> int:
        if stream is None:
            stream = 0 if self._driver.device_type == "cpu" else torch.cuda.current_stream(device)
        handle = getattr(stream, "cuda_stream", stream)
        if type(handle) is not int or not 0 <= handle < 2**64:
            wanted = "must be a torch.cuda.Stream or its handle, an int"
            raise CourseError(f"{self.name}: the stream is {stream!r:.60}, and {wanted}.")
        return handle

    @property
    def _reason(self) -> str:
        promises = promises_of(self.arguments)
        return (
            ": a promise of the signature does not hold, or the grid is too large, negative or "
            "divides by 0"
        ) + (f" (promised: {promises})" if promises else "")

    def __str__(self) -> str:
        parameters = [
            f"{argument.name}: {argument.type}{f':{argument.hint}' if argument.hint else ''}"
            for argument in self.arguments
        ]
        algorithms = f", {counted(self.algorithms, 'algorithm')}" if self.algorithms else ""
        return f"{self.name}({', '.join(parameters)}){algorithms}"

    __repr__ = __str__


@dataclass(frozen=True)
class Loaded:
    """A library's functions, as attributes and by name. Prints them.

    `.functions["unload"]` is for a function that is called as something that stands here.
    """

    path: Path
    functions: dict[str, LoadedFunction]
    _library: ctypes.CDLL
    _driver: Driver

    def __getattr__(self, name: str) -> LoadedFunction:
        functions = self.__dict__.get("functions", {})  # nothing yet, while a copy is being made
        if name not in functions:
            names = ", ".join(functions)
            raise AttributeError(f"The library has no function {name!r}: it has {names}.")
        function: LoadedFunction = functions[name]
        return function

    def unload(self) -> None:
        """Give the kernels' memory on the GPU back; the next launch loads them again.

        Raises CourseError on an error of the driver's.
        """
        for name in self.functions:
            if hasattr(self._library, f"unload_{name}"):
                self._driver.check(f"unload_{name}", self._library[f"unload_{name}"]())

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self.functions])

    def __str__(self) -> str:
        return "\n".join([f"{self.path}", *(f"    {each}" for each in self.functions.values())])

    __repr__ = __str__


def manifests_in(library: ctypes.CDLL) -> list[Manifest]:
    """The manifests of the headers that a library was built from.

    Raises ValueError if it has none: aot.build has not made it.
    """
    index = ctypes.c_char.in_dll(library, INDEX)
    listed = json.loads(ctypes.string_at(ctypes.addressof(index)))
    return msgspec.convert(listed, list[Manifest])


def functions_of(library: ctypes.CDLL, driver: Driver) -> Iterator[LoadedFunction]:
    """The functions of a library that aot.build made: its variants, or what they are linked to.

    Raises ValueError as `manifests_in` does.
    """
    manifests = manifests_in(library)
    variants = [each.functions[0] for each in manifests if not each.linked]
    for variant in variants:
        # The only one is known by its short name too.
        for name in (variant.name, variant.out_name)[: 2 if len(variants) == 1 else 1]:
            yield LoadedFunction(name, variant.passed, 0, library[variant.name], driver)
    for manifest in manifests:
        if name := manifest.linked:
            # Hints choose a variant here, and bind nobody.
            runtime = [replace(argument, hint=None) for argument in manifest.functions[0].runtime]
            count = library[f"{name}_get_num_algos"]()
            yield LoadedFunction(name, tuple(runtime), count, library[name], driver)
