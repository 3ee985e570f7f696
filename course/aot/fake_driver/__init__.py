"""A stand-in for NVIDIA's driver library, for machines with no GPU: it launches nothing, and records what would be launched.

It is C, built when first asked for into libcuda.so.1 in the course's cache. Programs find it there by LD_LIBRARY_PATH.

    with standin.recorded() as calls:
        aot.load(library, driver=standin).add(x, y, out, n)
    calls[-1].arguments     # every argument's bytes, as the kernel would read them

COURSE_STANDIN_LOG names a file for a line of JSON a call; COURSE_STANDIN_FAIL has calls fail ("cuLaunchKernel=719");
COURSE_STANDIN_DEVICES and COURSE_STANDIN_CAPABILITIES ("90,80") say what devices there are; COURSE_STANDIN_LOAD_MS how long
a library takes to load.
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

from course.aot.building import compile_library, include_folder
from course.aot.sealing import intact, sealed
from course.cache import cache_folder, private_folder
from course.files import write_together

FOLDER = Path(__file__).parent
LOG = "COURSE_STANDIN_LOG"


@dataclass(frozen=True)
class Call:
    """One call of the driver. Prints as one line."""

    name: str
    result: int
    """The CUresult that it returned."""
    details: dict[str, Any]
    """What it was given: "kernel", "grid", "block", "shared" (bytes), "stream", "device", "attribute", "value"."""

    @property
    def arguments(self) -> tuple[bytes, ...]:
        """Of a launch, every argument's bytes: as many as the kernel's code says that it reads."""
        return tuple(bytes.fromhex(each) for each in self.details["arguments"])

    @property
    def grid(self) -> tuple[int, int, int]:
        x, y, z = self.details["grid"]
        return x, y, z

    def __str__(self) -> str:
        return f"{self.name} -> {self.result}  " + ", ".join(
            f"{name} {value}" for name, value in self.details.items()
        )

    __repr__ = __str__


def path() -> Path:
    """The library, built if it is not there yet or is damaged. Raises CourseError where there is no C compiler."""
    texts = [
        (include_folder() / "cuda.h").read_bytes(),
        *(each.read_bytes() for each in sorted(FOLDER.glob("*.[ch]"))),
    ]
    name = hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]
    library = private_folder(cache_folder() / "standin") / name / "libcuda.so.1"
    if not library.is_file() or not intact(library.read_bytes()):
        with tempfile.TemporaryDirectory(prefix="course-standin-") as folder:
            built = Path(folder) / "libcuda.so.1"
            compile_library(
                sorted(FOLDER.glob("*.c")),
                built,
                "-D_GNU_SOURCE",
                "-Wl,-soname,libcuda.so.1",
                "-lpthread",
            )
            write_together({library: sealed(built.read_bytes())})
    return library


def calls_in(log: Path) -> list[Call]:
    """The calls in a file that COURSE_STANDIN_LOG named."""
    found = []
    for line in log.read_text().splitlines() if log.exists() else ():
        content = json.loads(line)
        found.append(Call(content.pop("call"), content.pop("result"), content))
    return found


@contextlib.contextmanager
def recorded() -> Iterator[list[Call]]:
    """Yields a list; at the end it holds the calls that this process, and those that it started, made meanwhile."""
    calls: list[Call] = []
    before = os.environ.get(LOG)
    with tempfile.TemporaryDirectory(prefix="course-standin-") as folder:
        log = Path(folder) / "calls"
        os.environ[LOG] = str(log)
        try:
            yield calls
        finally:
            if before is None:
                del os.environ[LOG]
            else:
                os.environ[LOG] = before
            calls += calls_in(log)
