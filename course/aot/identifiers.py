"""What exported functions and their parameters may be called in C."""

import ctypes
import re

from course.errors import CourseError


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KEYWORDS = _words(
    """
    auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while
    alignas alignof and and_eq asm bitand bitor bool catch char8_t char16_t char32_t class co_await
    co_return co_yield compl concept consteval constexpr constinit const_cast decltype delete
    dynamic_cast explicit export false friend mutable namespace new noexcept not not_eq nullptr
    operator or or_eq private protected public reinterpret_cast requires static_assert static_cast
    template this thread_local throw true try typeid typename typeof typeof_unqual using virtual
    wchar_t xor xor_eq
    """
)
"""The keywords of C and C++, up to C23 and C++23."""
OWN = _words(
    "stream algo_id bad result loaded arguments global_scratch profile_scratch kernel lock load"
)
"""What the generated functions use themselves, and a parameter could hide."""
RESERVED = re.compile(
    r"cu[A-Z]\w*|CU\w*|(bits|pthread|PTHREAD)_\w+|(fp16|bf16)_bits|algorithm_\d+"
    r"|grid_(x|y|z|add|subtract|multiply|divide|modulo|cdiv|unsigned)"
    r"|_[A-Z_]\w*|U?INT\w*_(MAX|MIN|C)|u?int\w*_t|NULL|linux|unix|i386"
    r"|NAN|INFINITY|HUGE_VAL[FL]?|I|EOF|BUFSIZ|errno|assert|std(in|out|err)"
    r"|(EXIT|SEEK|CLOCKS?|M|MATH|SCHED|FLT|L?DBL|FP)_\w+|[A-Z][A-Z0-9_]*_(MAX|MIN)|CHAR_BIT"
    r"|DECIMAL_DIG|math_errhandling|BYTE_ORDER|\w+_ENDIAN"
    r"|(ADJ|CLONE|MOD|STA|TIMER)_\w+|TIME_UTC|(CPU|FD)_SETSIZE|NFDBITS|sched_priority|CSIGNAL"
    r"|(U?INT\w*|[SU]?CHAR|U?SHRT|U?L?LONG|BOOL|PTRDIFF|SIG_ATOMIC|SIZE|WCHAR|WINT)_WIDTH"
    r"|W(NOHANG|UNTRACED|STOPPED|EXITED|CONTINUED|NOWAIT)"
)
"""What CUDA, C's headers, compilers and the generated functions have names for."""
TAKEN = re.compile(
    r"is(finite|normal|unordered|(less|greater)\w*)|signbit|fpclassify|alloca|offsetof|va_\w+"
    r"|FD_\w+|FILE|u_?(char|short|int|long)|u?quad_t|(s?size|ptrdiff|max_align|float|double|l?off)_t"
    r"|(clock|clockid|time|timer|suseconds|[pgu]?id|dev|ino|key|mode|nlink|locale|sigset|fpos)_t"
)
"""What C's headers have as macros with arguments and as types: a parameter may be called so."""
PROGRAM = (
    "main", "_start", "_init", "_fini", "_end", "_edata", "_etext", "std", "pow10",
    "printf_unlocked", "course_aot_index",
)  # fmt: skip
"""What a program has from its author, the compiler, the linker or a library of ours."""

C_LIBRARY = "libm.so.6"
"""C's mathematics, which brings the rest of C's library with it."""
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LONGEST = 100


def check_name(name: str) -> str:
    """The name of exported functions. Raises CourseError if C or C++ would not take it."""
    if not isinstance(name, str) or not IDENTIFIER.fullmatch(name):
        raise CourseError(
            f"{str(name)[:60]!r} cannot name a C function: "
            "take letters, digits and _, and no digit first."
        )
    if len(name) > LONGEST:
        raise CourseError(
            f"The name {name[:20]}… has {len(name)} characters: take at most {LONGEST}."
        )
    # A function called read or exp would take the place of C's own in every program.
    of_c = TAKEN.fullmatch(name) or hasattr(ctypes.CDLL(C_LIBRARY), name)
    if name in PROGRAM or _reserved(name) or of_c:
        raise CourseError(f"{name!r} means something in C, C++ or CUDA already: take another name.")
    return name


def _reserved(name: str) -> bool:
    return name in KEYWORDS or RESERVED.fullmatch(name) is not None


def parameter_names(names: list[str]) -> dict[str, str]:
    """Argument -> its parameter's name in C: the argument's own if C takes it."""
    parameters: dict[str, str] = {}
    for name in names:
        # Python takes letters of any alphabet.
        plain = re.sub(r"[^A-Za-z0-9_]", lambda letter: f"u{ord(letter[0]):04x}", name)
        if plain in OWN or _reserved(plain):
            plain = f"arg_{plain.lstrip('_')}"
        while plain in parameters.values():
            plain += "_"
        parameters[name] = plain
    return parameters
