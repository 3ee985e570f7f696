"""load: a built library's functions, called with tensors."""

import ctypes
import json
import math
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch

from course.compiling.arguments import DTYPES
from course.errors import CourseError

from .functions import Function
from .scalars import Scalar
from .signature import Argument
from .writing import INDEX

C_TYPES: dict[str, Any] = {
    "int8_t": ctypes.c_int8, "int16_t": ctypes.c_int16, "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64,
    "uint8_t": ctypes.c_uint8, "uint16_t": ctypes.c_uint16, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64,
    "float": ctypes.c_float, "double": ctypes.c_double, "CUdeviceptr": ctypes.c_uint64,
}  # fmt: skip
INVALID_VALUE = 1


class DriverLibrary(Protocol):
    """What takes the place of NVIDIA's driver library."""

    def path(self) -> Path: ...


class Driver:
    """The driver library of this process, its symbols there for libraries that are loaded later."""

    def __init__(self, standin: DriverLibrary | None) -> None:
        name = str(standin.path()) if standin else "libcuda.so.1"
        try:
            self.library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise CourseError(
                "NVIDIA's driver library libcuda.so.1 is not on this machine: load with driver=aot.standin, which records "
                "launches, or go to a machine with a GPU."
            ) from error
        self.device_type = "cpu" if standin else "cuda"
        self._contexts: dict[int, ctypes.c_void_p] = {}
        if self._is_standin != bool(standin) or self._address(self.library) != self._address(ctypes.CDLL(None)):
            raise CourseError(
                "Another CUDA driver library was loaded in this process before (one is the stand-in): start a new process."
            )
        self.check("cuInit", self.library.cuInit(0))

    @property
    def _is_standin(self) -> bool:
        return hasattr(self.library, "told_to_fail")

    def _address(self, library: ctypes.CDLL) -> int | None:
        return ctypes.cast(library.cuLaunchKernel, ctypes.c_void_p).value

    def check(self, what: str, result: int, hint: str = "") -> None:
        """Raise CourseError with the driver's name for it, where a call did not succeed."""
        if result:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(result, ctypes.byref(text))
            name = text.value.decode() if text.value else f"CUDA error {result}"
            raise CourseError(f"{what} returned {name}{hint}.")

    @contextmanager
    def context(self, device: int) -> Iterator[None]:
        """Have PyTorch's context of a device be this thread's: a new thread has none, and another device's does not do."""
        if device not in self._contexts:
            context = ctypes.c_void_p()
            self.check("cuDevicePrimaryCtxRetain", self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
            self._contexts[device] = context
        self.check("cuCtxPushCurrent", self.library.cuCtxPushCurrent_v2(self._contexts[device]))
        try:
            yield
        finally:
            self.library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


@dataclass(frozen=True)
class LoadedFunction:
    """One function of a library. Prints as its parameters."""

    name: str
    arguments: tuple[Argument, ...]
    algorithms: int
    """How many there are to choose from; 0 where there is no choice."""
    _pointer: Any = field(repr=False)
    _driver: Driver = field(repr=False)

    def __call__(self, *values: Any, stream: Any = None, algo: int = 0) -> None:
        """Launch it: tensors for pointers, numbers for the rest; in order.

        stream: a torch.cuda.Stream or its handle; by default PyTorch's current one. algo: which algorithm.
        Raises CourseError for a value that does not fit its type, and where the function returns an error.
        """
        if len(values) != len(self.arguments):
            names = ", ".join(each.name for each in self.arguments)
            raise CourseError(f"{self.name} takes {len(self.arguments)} arguments and was given {len(values)}: {names}.")
        device = self._device(values)
        numbers = [self._number(argument, value) for argument, value in zip(self.arguments, values, strict=True)]
        chosen = [algo] if self.algorithms else []
        with self._driver.context(device):
            result = self._pointer(self._stream(stream, device), *numbers, *chosen)
        promises = ", ".join(f"{each.name}:{each.hint}" for each in self.arguments if each.hint)
        hint = ": no variant takes these arguments, or the grid is too large" if result == INVALID_VALUE else ""
        self._driver.check(self.name, result, hint + (f" (promised: {promises})" if hint and promises else ""))

    def _device(self, values: Sequence[Any]) -> int:
        """The number of the device that all the tensors are on."""
        tensors = {
            argument.name: value
            for argument, value in zip(self.arguments, values, strict=True)
            if isinstance(value, torch.Tensor)
        }
        wanted = self._driver.device_type
        for name, tensor in tensors.items():
            if tensor.device.type != wanted:
                raise CourseError(f"{self.name}: {name} is on {tensor.device}, and must be on {wanted}.")
        devices = {tensor.device for tensor in tensors.values()}
        if len(devices) > 1:
            raise CourseError(f"{self.name}: the tensors are on {', '.join(sorted(map(str, devices)))}, and must be on one.")
        if wanted == "cpu":
            return 0
        return next((device.index for device in devices), torch.cuda.current_device())

    def _stream(self, stream: Any, device: int) -> ctypes.c_void_p:
        if stream is None:
            stream = 0 if self._driver.device_type == "cpu" else torch.cuda.current_stream(device)
        return ctypes.c_void_p(getattr(stream, "cuda_stream", stream))

    def _number(self, argument: Argument, value: Any) -> Any:
        assert argument.type is not None
        return C_TYPES[argument.type.c](number_of(f"{self.name}: {argument.name}", argument.type, value))

    def __str__(self) -> str:
        parts = [f"{each.name}: {each.type.name}{f':{each.hint}' if each.hint else ''}" for each in self.arguments if each.type]
        return f"{self.name}({', '.join(parts)})" + (f", {self.algorithms} algorithms" if self.algorithms else "")

    __repr__ = __str__


def number_of(what: str, type: Scalar, value: Any) -> int | float:
    """What C is given for a value. Raises CourseError where it does not fit the type. what: for the error's beginning."""
    if type.pointer:
        return _address(what, type, value)
    if isinstance(value, torch.Tensor):
        raise CourseError(f"{what} is a tensor, and must be a number ({type.name}): call .item().")
    if type.float:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise CourseError(f"{what} is a {_kind(value)}, and must be a number ({type.name}).")
        return _in_float(what, type, value)
    if not isinstance(value, int):
        raise CourseError(f"{what} is a {_kind(value)}, and must be {'a bool' if type.boolean else 'an int'} ({type.name}).")
    least, greatest = type.range
    if not least <= value <= greatest:
        raise CourseError(f"{what} is {value}, and {type.name} holds {least} to {greatest}.")
    return int(value)


def _in_float(what: str, type: Scalar, value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if type.c == "float" and math.isfinite(number) and math.isinf(ctypes.c_float(number).value):
        number = math.copysign(math.inf, number)
    if math.isinf(number) and not (isinstance(value, float) and math.isinf(value)):
        raise CourseError(f"{what} is {value}, which {type.name} does not hold.")
    return number


def _address(what: str, type: Scalar, value: Any) -> int:
    if not isinstance(value, torch.Tensor):
        raise CourseError(f"{what} is a {_kind(value)}, and must be a tensor ({type.name}).")
    wanted = DTYPES.get(type.name.lstrip("*"), DTYPES.get(type.name[2:]))
    if value.dtype != wanted and (wanted is not None or value.dtype.itemsize != 1):
        raise CourseError(f"{what} is a tensor of {value.dtype}, and must be of {wanted} ({type.name}).")
    return value.data_ptr()


def _kind(value: Any) -> str:
    return type(value).__name__


@dataclass(frozen=True)
class Loaded:
    """A library's functions, by name. Prints them."""

    path: Path
    functions: dict[str, LoadedFunction]
    _library: ctypes.CDLL = field(repr=False)
    _driver: Driver = field(repr=False)

    def __getattr__(self, name: str) -> LoadedFunction:
        if name.startswith("_") or name not in self.functions:
            raise AttributeError(f"{self.path} has no function {name!r}: it has {', '.join(self.functions)}.")
        return self.functions[name]

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

    driver: `course.aot.standin`, which launches nothing and records what it is told, with tensors on the CPU; by default
        NVIDIA's own. One process can use one of the two.
    Raises CourseError where it is no such library, or there is no driver.
    """
    path = Path(library)
    if not path.is_file():
        raise CourseError(f"There is no library {path}: make it with aot.build.")
    found_driver = Driver(driver)
    # Loaded as a copy under a name of its own: the loader would give back the library that was at this path before.
    with tempfile.TemporaryDirectory(prefix="course-aot-") as folder:
        copy = Path(folder) / path.name
        try:
            shutil.copyfile(path, copy)
            loaded = ctypes.CDLL(str(copy))
            index = ctypes.c_char.in_dll(loaded, INDEX)
        except (OSError, ValueError) as error:
            raise CourseError(
                f"{path} is no library that aot.build made: {str(error).replace(str(copy), str(path))}."
            ) from error
    content = json.loads(ctypes.string_at(ctypes.addressof(index)))
    functions = {each.name: each for each in _functions(content, loaded, found_driver)}
    return Loaded(path, functions, loaded, found_driver)


def _functions(content: list[dict[str, Any]], library: ctypes.CDLL, driver: Driver) -> Iterator[LoadedFunction]:
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
            arguments = tuple(replace(argument, hint=None) for argument in first.runtime)  # hints choose, and bind nobody
            yield LoadedFunction(name, arguments, library[f"{name}_get_num_algos"](), library[name], driver)
