"""NVIDIA's driver library in this process, or the one that stands in for it."""

import ctypes
from pathlib import Path
from typing import Any, Protocol

from course.errors import CourseError

MARKER = "course_standin"
"""A symbol that the stand-in alone has."""


class DriverLibrary(Protocol):
    """What takes the place of NVIDIA's driver library."""

    def path(self) -> Path: ...


class Driver:
    """The driver library of this process, its symbols there for libraries that are loaded later."""

    def __init__(self, standin: DriverLibrary | None) -> None:
        if standin is not None and not callable(getattr(standin, "path", None)):
            raise CourseError(
                f"The driver is {standin!r:.60}, and must be course.aot.fake_driver, or None for NVIDIA's own."
            )
        name = str(standin.path()) if standin else "libcuda.so.1"
        try:
            self.library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            if standin:
                raise CourseError(
                    f"The stand-in for NVIDIA's library could not be loaded: {error}."
                ) from error
            raise CourseError(
                "NVIDIA's driver library libcuda.so.1 is not on this machine: load with driver=aot.standin, which records "
                "launches, or go to a machine with a GPU."
            ) from error
        self.device_type = "cpu" if standin else "cuda"
        self._contexts: dict[int, ctypes.c_void_p] = {}
        everyones = ctypes.CDLL(
            None
        )  # where the symbols of libraries are found that are loaded later
        if (
            hasattr(everyones, MARKER)
            if standin is None
            else _address_of(self.library) != _address_of(everyones)
        ):
            raise CourseError(
                "Another CUDA driver library was loaded in this process before (one is the stand-in): start a new process."
            )
        self.check("cuInit", self.library.cuInit(0))

    def check(self, what: str, result: int, hint: str = "") -> None:
        """Raise CourseError with the driver's name for it, where a call did not succeed."""
        if result:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(result, ctypes.byref(text))
            name = text.value.decode() if text.value else f"CUDA error {result}"
            raise CourseError(f"{what} returned {name}{hint}.")

    def call(self, device: int, function: Any, *values: Any) -> int:
        """Call a function of a library in the context of a device that PyTorch uses, and return its CUresult.

        A thread that is new has no context, and the current one may be another device's.
        """
        context = self._contexts.get(device)
        if context is None:
            context = ctypes.c_void_p()
            self.check(
                "cuDevicePrimaryCtxRetain",
                self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
            )
            self._contexts[device] = context  # only now: another thread may find it here
        current = ctypes.c_void_p()
        self.library.cuCtxGetCurrent(ctypes.byref(current))
        if current.value == context.value:
            return int(function(*values))
        self.check("cuCtxPushCurrent", self.library.cuCtxPushCurrent_v2(context))
        try:
            return int(function(*values))
        finally:
            self.library.cuCtxPopCurrent_v2(ctypes.byref(current))


def _address_of(library: ctypes.CDLL) -> int | None:
    return ctypes.cast(library.cuLaunchKernel, ctypes.c_void_p).value
