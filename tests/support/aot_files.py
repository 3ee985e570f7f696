"""What stands in the C of an export."""

import re


def cubin_in(source):
    """The machine code in a source, from the array's bytes."""
    return bytes(int(byte, 16) for byte in re.findall(r"0x([0-9a-f]{2}),", source.read_text()))
