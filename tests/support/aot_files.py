"""What stands in the C of an export, and what strict compilers say of it."""

import re
import subprocess

from course.aot.c_compiler import include_folder

STRICT = ("-Wall", "-Wextra", "-Werror", "-isystem", str(include_folder()))


def cubin_in(source):
    """The machine code in a source, from the array's bytes."""
    return bytes(int(byte, 16) for byte in re.findall(r"0x([0-9a-f]{2}),", source.read_text()))


def complaints(source, *compiler):
    """What a compiler says of a source of C, with each warning an error; "" if it takes it."""
    command = [*compiler, *STRICT, "-fsyntax-only", str(source)]
    return subprocess.run(command, capture_output=True, text=True).stderr
