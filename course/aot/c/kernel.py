"""The C of one exported function: its header and its source."""

from course.aot.cubin import Cubin
from course.aot.grid import parse_grid
from course.aot.manifest import Function, json_line
from course.aot.signature import Argument, counted
from course.aot.writing import MARK
from course.gpus.limits import MOST_GRID, TARGETS

from .templates import BITS, GRID, LAUNCH, LOADING, SHARED

PLAIN_SHARED_BYTES = 48 * 1024
"""What a program may have without asking."""
BYTES_A_LINE = 24
SCRATCH = ("global_scratch", "profile_scratch")


def header(function: Function) -> str:
    """Prototypes for C and C++, with what callers must know."""
    guard = f"COURSE_AOT_{function.name}_H"
    full = function.parameters(function.runtime)
    return f"""\
{first_line(function)}
{json_line({"function": function.to_json()})}
// tt-linker-backend: cuda
#ifndef {guard}
#define {guard}

{INCLUDES}
{BEGIN}
{_documentation(function)}
// tt-linker: {function.name}:{full}:{function.algorithm}
{function.prototype};

/*
 * May be called in any order, repeatedly and by any thread; unload while no launch is under way.
 * The function above loads by itself, at its first call.
 */
CUresult load_{function.name}(void);
CUresult unload_{function.name}(void);

{END}
#endif
"""


INCLUDES = """\
#include <cuda.h>
#include <stdint.h>
"""
BEGIN = """\
#ifdef __cplusplus
extern "C" {
#endif
"""
END = """\
#ifdef __cplusplus
}
#endif
"""


def first_line(function: Function) -> str:
    return f"{MARK}: {c_text(function.kernel)} for {function.target}, by Triton {function.triton}. To change it, export again."


def _documentation(function: Function) -> str:
    constants = ", ".join(f"{c_text(name)} = {value}" for name, value in function.constants.items())
    lines = [
        f"{c_text(function.kernel)}, over a grid of {c_text(function.grid)}.",
        "",
        *(
            f"  {function.c_names[each.name]}: {_promise(each)}"
            for each in function.arguments
            if _promise(each)
        ),
        f"Constants: {constants or 'none'}.",
        f"{function.options}; {counted(function.registers, 'register')} per thread, "
        f"{function.shared_bytes} bytes of shared memory per program.",
        "Returns the driver's error, or CUDA_ERROR_INVALID_VALUE where a promise is broken or the grid is too large,",
        "negative, or divided by 0.",
        "A grid with a 0 in it launches nothing and is no error.",
    ]
    return "/*\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */"


def _promise(argument: Argument) -> str:
    if argument.hint == 1:
        return "no parameter, since it is 1"
    words = ["a multiple of 16"] if argument.hint == 16 else []
    if argument.type is not None and argument.type.pointer:
        access = ", only read" if argument.type.name.startswith("*k") else ""
        words.insert(
            0, f"device memory, {argument.type.name.lstrip('*').removeprefix('k')}{access}"
        )
    elif argument.type is not None and argument.type.boolean:
        words.insert(0, "0 or 1")
    elif argument.type is not None and argument.type.bits_c:
        words.insert(0, f"rounded to {argument.type.name}")
    return ", ".join(words)


def c_text(text: str) -> str:
    """As a comment has it: letters of any alphabet may stand in a name, and compilers differ on them."""
    return text.encode("ascii", "backslashreplace").decode()


def source(function: Function, cubin: Cubin, header_name: str) -> str:
    """What loads and launches the kernel, and its machine code."""
    grid = parse_grid(function.grid, function.arguments)
    x, y, z = grid.c(function.c_names)
    converted = sorted(
        {each.type.name for each in function.passed if each.type and each.type.bits_c}
    )
    helpers = [GRID[name] for name in sorted(grid.functions)] + [BITS[name] for name in converted]
    large = function.shared_bytes > PLAIN_SHARED_BYTES
    capability = TARGETS[function.target].triton.arch
    allow = (
        SHARED.format(major=capability // 10, minor=capability % 10, shared=function.shared_bytes)
        if large
        else ""
    )
    load = LOADING.format(
        name=function.name,
        symbol="".join(
            f"\\{byte:03o}" if byte > 127 else chr(byte) for byte in cubin.symbol.encode()
        ),
        allow="    if (result == CUDA_SUCCESS) result = allow_shared(found);\n" if large else "",
    )
    names = function.c_names
    scratch = SCRATCH[: len(cubin.parameters) - len(function.passed)]
    broken = " || ".join(holds(each, names, "!=") for each in function.passed if each.hint)
    launch = LAUNCH.format(
        prototype=function.prototype, grid=c_text(str(grid)), x=x, y=y, z=z,
        hints=f"    if ({broken}) return CUDA_ERROR_INVALID_VALUE;\n" if broken else "",
        bits="".join(_bits(each, names[each.name]) for each in function.passed),
        scratch="".join(f"    CUdeviceptr {name} = 0; /* Triton's own: this kernel needs none */\n" for name in scratch),
        pointers=", ".join(f"&{name}" for name in (*(_sent(each, names[each.name]) for each in function.passed), *scratch)),
        most_x=MOST_GRID[0], most_y=MOST_GRID[1], most_z=MOST_GRID[2],
        threads=function.threads, shared=function.shared_bytes,
    )  # fmt: skip
    return "\n".join(
        [
            first_line(function),
            f'#include "{header_name}"\n',
            "#include <pthread.h>\n#include <string.h>\n",
            *helpers,
            f"static const unsigned char cubin[] __attribute__((aligned(16))) = {{\n{_bytes(cubin.code)}}};\n",
            allow + load,
            launch,
        ]
    )


def holds(argument: Argument, names: dict[str, str], sign: str = "==") -> str:
    """The C condition under which a hint holds; under which it does not, with the sign "!="."""
    name = names[argument.name]
    return f"{name} % 16 {sign} 0" if argument.hint == 16 else f"{name} {sign} 1"


def _bits(argument: Argument, name: str) -> str:
    """The line that makes what the kernel takes, where that is not the C argument itself."""
    assert argument.type is not None
    if argument.type.boolean:
        return f"    {argument.type.c} bits_{name} = {name} != 0;\n"
    if argument.type.bits_c:
        return f"    {argument.type.bits_c} bits_{name} = {argument.type.name}_bits({name});\n"
    return ""


def _sent(argument: Argument, name: str) -> str:
    return f"bits_{name}" if _bits(argument, name) else name


def _bytes(code: bytes) -> str:
    rows = (code[start : start + BYTES_A_LINE] for start in range(0, len(code), BYTES_A_LINE))
    return "".join("    " + ",".join(f"0x{byte:02x}" for byte in row) + ",\n" for row in rows)
