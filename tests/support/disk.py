"""A disk that is full after some bytes, without filling one."""

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file of this process can grow beyond `size` bytes: a write stops short there and the next
    one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
