"""A library in the place of NVIDIA's driver, for machines with no GPU: it launches nothing, and
records what would be launched.

It is C, built at its first use into libcuda.so.1 in the course's cache. Programs find it there by
LD_LIBRARY_PATH.

    with aot.fake_driver.recorded() as calls:
        aot.load(library, driver=aot.fake_driver).add(x, y, out, n)
    calls[-1].arguments     # every argument's bytes, as the kernel would read them

Variables of the environment, each after COURSE_FAKE_DRIVER_: LOG names a file for a line of JSON
per call; FAIL has calls fail ("cuLaunchKernel=719"); DEVICES and CAPABILITIES ("90,80") say what
devices there are; LOAD_MS how long a library takes to load.
"""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course.aot.c_compiler import compile_library, include_folder
from course.aot.sealing import cached_library

FOLDER = Path(__file__).parent
LOG, CAPABILITIES = "COURSE_FAKE_DRIVER_LOG", "COURSE_FAKE_DRIVER_CAPABILITIES"
FLAGS = ("-D_GNU_SOURCE", "-Wl,-soname,libcuda.so.1", "-lpthread")


@dataclass(frozen=True)
class Call:
    """One call of the driver. Prints as one line."""

    name: str
    result: int
    """The CUresult that it returned."""
    details: dict[str, Any]
    """What the driver was told: "kernel", "grid", "block", "shared" (bytes), "stream", "device",
    "attribute", "value"."""

    @property
    def arguments(self) -> tuple[bytes, ...]:
        """Every argument's bytes in a launch, as many as the kernel's code says that it reads."""
        return tuple(bytes.fromhex(digits) for digits in self.details["arguments"])

    @property
    def grid(self) -> tuple[int, int, int]:
        x, y, z = self.details["grid"]
        return x, y, z

    def __str__(self) -> str:
        details = ", ".join(f"{name} {value}" for name, value in self.details.items())
        return f"{self.name} -> {self.result}  {details}"

    __repr__ = __str__


def path() -> Path:
    """The library, built if it is not there or is damaged.

    Raises CourseError if it must be built and there is no C compiler.
    """
    sources = sorted(FOLDER.glob("*.c"))
    texts = [path.read_bytes() for path in (include_folder() / "cuda.h", *FOLDER.glob("*.[ch]"))]
    name = hashlib.sha256(b"\0".join(sorted(texts))).hexdigest()[:16]

    def build(library: Path) -> None:
        compile_library(sources, library, *FLAGS)

    return cached_library(Path("fake-driver") / name / "libcuda.so.1", build)


def calls_in(log: Path) -> list[Call]:
    """The calls in a file that COURSE_FAKE_DRIVER_LOG named."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [Call(each.pop("call"), each.pop("result"), each) for each in map(json.loads, lines)]


@contextlib.contextmanager
def recorded() -> Iterator[list[Call]]:
    """Yields a list; at the end it holds the calls that this process, and those that it started,
    made meanwhile."""
    calls: list[Call] = []
    with tempfile.TemporaryDirectory(prefix="course-fake-driver-") as folder:
        log = Path(folder) / "calls"
        try:
            with told(LOG, str(log)):
                yield calls
        finally:
            calls += calls_in(log)


@contextlib.contextmanager
def told(variable: str, value: str) -> Iterator[None]:
    """While active, a variable of the environment has this value."""
    before = os.environ.get(variable)
    os.environ[variable] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before
