"""What exported functions, parameters and files may be called."""

import contextlib
import ctypes
import os
import re
from pathlib import Path, PurePath

from course.errors import CourseError


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEYWORDS = _words(
    """
    auto break case char const continue default do double else enum extern float for goto if inline int long register restrict
    return short signed sizeof static struct switch typedef union unsigned void volatile while
    alignas alignof and and_eq asm bitand bitor bool catch char8_t char16_t char32_t class co_await co_return co_yield compl
    concept consteval constexpr constinit const_cast decltype delete dynamic_cast explicit export false friend mutable namespace
    new noexcept not not_eq nullptr operator or or_eq private protected public reinterpret_cast requires static_assert
    static_cast template this thread_local throw true try typeid typename typeof typeof_unqual using virtual wchar_t xor xor_eq
    """
)
"""Of C and of C++, up to C23 and C++23."""
OWN = _words(
    "stream algo_id bad result loaded arguments global_scratch profile_scratch kernel lock load"
)
"""What the generated functions, in which a parameter's name could hide it, use themselves."""
RESERVED = re.compile(
    r"cu[A-Z]\w*|CU\w*|(grid|bits|algorithm|pthread|PTHREAD|fp16|bf16)_\w+"
    r"|_[A-Z_]\w*|U?INT\w*_(MAX|MIN|C)|u?int\w*_t|NULL|linux|unix|i386"
    r"|NAN|INFINITY|HUGE_VALF?|I|EOF|BUFSIZ|RAND_MAX|errno|assert|std(in|out|err)|(EXIT|SEEK|CLOCK|M)_\w+|\w+_ENDIAN"
)
"""What CUDA, C's headers, compilers and the generated functions have names for."""

PROGRAMS_OWN = _words("main _start _init _fini _end _edata _etext")
"""What each program has itself, of its author's, the compiler's or the linker's."""

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LONGEST = 100
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")


def check_name(name: str) -> str:
    """The name of exported functions. Raises CourseError where C or C++ would not take it."""
    if not isinstance(name, str) or not IDENTIFIER.fullmatch(name):
        name = str(name)
        raise CourseError(
            f"{name[:60]!r} cannot name a C function: take letters, digits and _, and no digit first."
        )
    if len(name) > LONGEST:
        raise CourseError(
            f"The name {name[:20]}… has {len(name)} characters: take at most {LONGEST}."
        )
    if name in PROGRAMS_OWN or _reserved(name) or _in_c_library(name):
        raise CourseError(f"{name!r} means something in C, C++ or CUDA already: take another name.")
    return name


def _in_c_library(name: str) -> bool:
    """Whether a function of that name would take the place of one that every program uses, such as read or exp."""
    for library in ("libc.so.6", "libm.so.6"):
        with contextlib.suppress(OSError):
            if hasattr(ctypes.CDLL(library), name):
                return True
    return False


def _reserved(name: str) -> bool:
    return name in KEYWORDS or RESERVED.fullmatch(name) is not None


def parameter_names(names: list[str]) -> dict[str, str]:
    """By a kernel's argument its name in C: its own, where C takes it."""
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub(
            r"[^A-Za-z0-9_]", lambda match: f"u{ord(match[0]):04x}", name
        )  # Python takes letters of any alphabet
        if plain in OWN or _reserved(plain):
            plain = f"arg_{plain.lstrip('_')}"
        while plain in found.values():
            plain += "_"
        found[name] = plain
    return found


def check_out(out: str | Path) -> Path:
    """Where files are to go: a path without the extension. Raises CourseError for one that leaves the current folder.

    An absolute path is taken from Python alone, as a pathlib.Path: there it was meant.
    """
    if not isinstance(out, (str, Path)):
        raise CourseError(
            f"The output is {out!r:.60}, and must be a path below the current folder."
        )
    path = Path(out)
    if ".." in PurePath(out).parts:
        raise CourseError(
            f"The output {str(out)[:200]!r} leaves its folder by '..': name a path below the current folder."
        )
    if path.is_absolute() and not isinstance(out, Path):
        raise CourseError(
            f"The output {str(out)[:200]!r} is absolute: name a path below the current folder."
        )
    if str(out).endswith("/"):
        raise CourseError(f"The output {str(out)[:200]!r} is a folder: add the name of a file.")
    if any(not character.isprintable() for character in str(out)):
        raise CourseError(
            f"The output {str(out)[:200]!r} has a character that cannot be printed: leave it out."
        )
    if not FILE_NAME.fullmatch(path.name) or len(os.fsencode(path.name)) > LONGEST:
        raise CourseError(
            f"The output {str(out)[:200]!r} must end in the name of a file, of letters, digits and _ . + -, at most {LONGEST}."
        )
    if not path.is_absolute() and not path.parent.resolve().is_relative_to(Path.cwd()):
        raise CourseError(
            f"The output {str(out)[:200]!r} leaves the current folder by a link: name a path below that folder."
        )
    return path
