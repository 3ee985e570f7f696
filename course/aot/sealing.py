"""Shared libraries that end in a hash of what stands before it.

The system's loader does not look whether a library is whole: of one that was cut off it maps what is missing, and the process
dies where it touches that. It does not mind what stands behind a library.
"""

import hashlib

SEAL_BYTES = hashlib.sha256().digest_size


def sealed(library: bytes) -> bytes:
    """The library with its hash behind it."""
    return library + hashlib.sha256(library).digest()


def intact(content: bytes) -> bool:
    """Whether a file's content is what `sealed` returned."""
    library, seal = content[:-SEAL_BYTES], content[-SEAL_BYTES:]
    return hashlib.sha256(library).digest() == seal
