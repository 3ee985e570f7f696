"""The sections of an ELF file, as which machine code is kept."""

import struct

NO_BITS = 8
"""The kind of a section that takes no room in the file."""


def sections(code: bytes) -> dict[str, bytes]:
    """name -> section, of a 64-bit ELF file.

    Raises KeyError where it is none, struct.error where its end is missing, and IndexError or
    ValueError where it is damaged.
    """
    if code[:5] != b"\x7fELF\x02":
        raise KeyError("ELF header")
    segments, table = struct.unpack_from("<QQ", code, 0x20)
    segment_size, segment_count, size, count, of_names = struct.unpack_from("<HHHHH", code, 0x36)
    if segments + segment_count * segment_size > len(code):
        raise struct.error("a table of segments beyond the end")
    entries = []
    for index in range(count):
        name, kind, _, _, offset, length = struct.unpack_from("<IIQQQQ", code, table + index * size)
        if kind != NO_BITS and offset + length > len(code):
            raise struct.error(f"a section up to byte {offset + length} of {len(code)}")
        entries.append((name, b"" if kind == NO_BITS else code[offset : offset + length]))
    names = entries[of_names][1]
    return {names[name : names.index(b"\0", name)].decode(): content for name, content in entries}


def is_whole(code: bytes) -> bool:
    """Whether it is an ELF file with all that it says it has."""
    try:
        sections(code)
    except (KeyError, IndexError, ValueError, struct.error):
        return False
    return True
