"""NVIDIA's driver library in this process, or the fake one in its place."""

import ctypes
from pathlib import Path
from typing import Any, Protocol

from course.errors import CourseError

MARKER = "course_fake_driver"
"""A symbol that the fake driver alone has."""


class DriverLibrary(Protocol):
    """What takes the place of NVIDIA's driver library: `aot.fake_driver`."""

    def path(self) -> Path: ...


class Driver:
    """The driver library of this process, its symbols there for libraries that are loaded later."""

    def __init__(self, fake: DriverLibrary | None) -> None:
        """Loads it. Raises CourseError if there is none, or another one was loaded before."""
        if fake is not None and not callable(getattr(fake, "path", None)):
            raise CourseError(
                f"The driver is {fake!r:.60}, and must be course.aot.fake_driver, "
                "or None for NVIDIA's own."
            )
        name = str(fake.path()) if fake else "libcuda.so.1"
        try:
            self.library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            if fake:
                problem = f"The fake driver could not be loaded: {error}."
            else:
                problem = (
                    "NVIDIA's driver library libcuda.so.1 is not on this machine: load with "
                    "driver=aot.fake_driver, which records launches, or go to a machine with a GPU."
                )
            raise CourseError(problem) from error
        self.device_type = "cpu" if fake else "cuda"
        self._contexts: dict[int, ctypes.c_void_p] = {}
        # Where libraries that are loaded later look for symbols.
        everyones = ctypes.CDLL(None)
        same = _launch_address(self.library) == _launch_address(everyones)
        if hasattr(everyones, MARKER) if fake is None else not same:
            raise CourseError(
                "Another CUDA driver library was loaded in this process before (one is the "
                "fake driver): start a new process."
            )
        self.check("cuInit", self.library.cuInit(0))

    def check(self, what: str, result: int, hint: str = "") -> None:
        """Raise CourseError of the kind that the driver names, if a call did not succeed."""
        if result:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(result, ctypes.byref(text))
            name = text.value.decode() if text.value else f"CUDA error {result}"
            raise CourseError(f"{what} returned {name}{hint}.", kind=name)

    def call(self, device: int, function: Any, *values: float | None) -> int:
        """Call a library's function in the context that PyTorch uses on a device; its CUresult.

        A thread that is new has no context, and the current one may be another device's.
        """
        context = self._contexts.get(device)
        if context is None:
            context = ctypes.c_void_p()
            result = self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
            self.check("cuDevicePrimaryCtxRetain", result)
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


def _launch_address(library: ctypes.CDLL) -> int | None:
    return ctypes.cast(library.cuLaunchKernel, ctypes.c_void_p).value
