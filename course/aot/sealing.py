"""Shared libraries that end in a hash of what stands before it.

The system's loader does not look whether a library is whole: it maps what is missing of one that
was cut off, and the process dies where it touches that. It ignores what stands behind a library.
"""

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path

from course.cache import cache_folder, private_folder
from course.files import write_together

SEAL_BYTES = hashlib.sha256().digest_size


def sealed(library: bytes) -> bytes:
    """The library with its hash behind it."""
    return library + hashlib.sha256(library).digest()


def intact(content: bytes) -> bool:
    """Whether a file's content is what `sealed` returned."""
    library, seal = content[:-SEAL_BYTES], content[-SEAL_BYTES:]
    return hashlib.sha256(library).digest() == seal


def cached_library(place: Path, build: Callable[[Path], None]) -> Path:
    """A library in the course's cache, built if it is not there or is damaged.

    place: KIND/HASH/NAME.so, where the hash covers all that it is built from. build: writes the
    library to the path that it is given.
    """
    kind, *rest = place.parts
    library = private_folder(cache_folder() / kind).joinpath(*rest)
    if not library.is_file() or not intact(library.read_bytes()):
        with tempfile.TemporaryDirectory(prefix="course-library-") as folder:
            built = Path(folder) / place.name
            build(built)
            write_together({library: sealed(built.read_bytes())})
    return library
