"""The C of one exported function: its header and its source."""

from course.aot.cubin import SCRATCH, Cubin
from course.aot.grid import Grid, parse_grid
from course.aot.manifest import Function, Manifest
from course.aot.output_files import MARK
from course.aot.signature import Argument
from course.gpus.limits import MOST_GRID, TARGETS

from .templates import BITS, GRID, HEADER, LAUNCH, LOADING, SHARED

PLAIN_SHARED_BYTES = 48 * 1024
"""The shared memory that a program may have without asking for it."""
BYTES_PER_LINE = 24


def header(function: Function) -> str:
    """Prototypes for C and C++, with what callers must know."""
    parameters = function.parameters(function.runtime).removeprefix("CUstream stream")
    linker = f"{function.name}:{parameters.removeprefix(', ')}:{_algorithm(function)}"
    declarations = _documentation(function), f"// tt-linker: {linker}", f"{function.prototype};"
    return HEADER.format(
        first_line=_first_line(function),
        manifest=f"{Manifest((function,)).line}\n// tt-linker-backend: cuda",
        name=function.name,
        declarations="\n".join(declarations),
        loading="The function above loads by itself, at its first call.",
    )


def source(function: Function, cubin: Cubin, header_name: str) -> str:
    """What loads and launches the kernel, and its machine code."""
    names = function.c_names
    scalars = [argument.scalar for argument in function.passed]
    converted = sorted({scalar.name for scalar in scalars if scalar.bits_c})
    grid = parse_grid(function.grid, function.arguments)
    sizes = " ".join(size.c for size in grid)
    helpers = [text for name, text in sorted(GRID.items()) if f"{name}(" in sizes]
    helpers += [BITS[name] for name in converted]
    code = "".join(
        f"    {','.join(f'0x{byte:02x}' for byte in cubin.code[start : start + BYTES_PER_LINE])},\n"
        for start in range(0, len(cubin.code), BYTES_PER_LINE)
    )
    return "\n".join(
        [
            _first_line(function),
            f'#include "{header_name}"\n',
            "#include <pthread.h>\n#include <string.h>\n",
            *helpers,
            f"static const unsigned char cubin[] __attribute__((aligned(16))) = {{\n{code}}};\n",
            _loading(function, cubin.symbol),
            _launch(function, grid, SCRATCH[: len(cubin.sizes) - len(scalars)], names),
        ]
    )


def _first_line(function: Function) -> str:
    what = f"{comment(function.kernel)} for {function.target}, by Triton {function.triton}"
    return f"{MARK}: {what}. To change it, export again."


def _documentation(function: Function) -> str:
    constants = ", ".join(
        f"{comment(name)} = {value}" for name, value in function.constants.items()
    )
    promises = [(function.c_names[each.name], _promise(each)) for each in function.arguments]
    lines = [
        f"{comment(function.kernel)}, over a grid of {comment(function.grid)}.",
        "",
        *(f"  {name}: {promise}" for name, promise in promises if promise),
        f"Constants: {constants or 'none'}.",
        f"{function.options};",
        f"{function.needs}.",
        "Returns the driver's error, or CUDA_ERROR_INVALID_VALUE where a promise is broken or the "
        "grid is too large,",
        "negative, or divided by 0.",
        "A grid with a 0 in it launches nothing and is no error.",
    ]
    return "/*\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */"


def _promise(argument: Argument) -> str:
    """What a caller must know of an argument; empty if there is nothing."""
    if argument.hint == 1:
        return "no parameter, since it is 1"
    words = ["a multiple of 16"] if argument.hint == 16 else []
    if argument.type and argument.scalar.pointer:
        access = ", only read" if argument.type.startswith("*k") else ""
        words.insert(0, f"device memory, {argument.type.lstrip('*').removeprefix('k')}{access}")
    elif argument.type and argument.scalar.bits_c:
        words.append(f"rounded to {argument.type}")
    elif argument.type and argument.scalar.boolean:
        words.append("0 or 1")
    return ", ".join(words)


def _algorithm(function: Function) -> str:
    """What is fixed besides hints, in the words of Triton's own linker."""
    fixed = [*function.constants.values(), *(1 for each in function.arguments if each.hint == 1)]
    return f"{'x'.join(map(str, fixed))}_{function.options.words}"


def _loading(function: Function, symbol: str) -> str:
    shared = function.shared_bytes
    major, minor = divmod(TARGETS[function.target].capability, 10)
    allow = SHARED.format(major=major, minor=minor, shared=shared)
    call = "    if (result == CUDA_SUCCESS) result = allow_shared(found);\n"
    large = shared > PLAIN_SHARED_BYTES
    escaped = "".join(f"\\{byte:03o}" if byte > 127 else chr(byte) for byte in symbol.encode())
    loading = LOADING.format(name=function.name, symbol=escaped, allow=call if large else "")
    return allow + loading if large else loading


def _launch(function: Function, grid: Grid, scratch: tuple[str, ...], names: dict[str, str]) -> str:
    most_x, most_y, most_z = MOST_GRID
    hinted = [argument for argument in function.passed if argument.hint]
    broken = " || ".join(holds(argument, names, "!=") for argument in hinted)
    pointers, bits = [], ""
    for argument in function.passed:
        converted = _bits(argument, names[argument.name])
        bits += converted
        pointers.append(
            f"&bits_{names[argument.name]}" if converted else f"&{names[argument.name]}"
        )
    zeros = [
        f"    CUdeviceptr {name} = 0; /* Triton's own: this kernel needs none */\n"
        for name in scratch
    ]
    return LAUNCH.format(
        prototype=function.prototype, grid=comment(str(grid)),
        x=grid.x.c, y=grid.y.c, z=grid.z.c,
        hints=f"    if ({broken}) return CUDA_ERROR_INVALID_VALUE;\n" if broken else "",
        bits=bits, scratch="".join(zeros),
        pointers=", ".join([*pointers, *(f"&{name}" for name in scratch)]),
        most_x=most_x, most_y=most_y, most_z=most_z,
        threads=function.threads, shared=function.shared_bytes,
    )  # fmt: skip


def holds(argument: Argument, names: dict[str, str], sign: str = "==") -> str:
    """The C condition under which a hint holds; with the sign "!=", under which it does not."""
    name = names[argument.name]
    return f"{name} % 16 {sign} 0" if argument.hint == 16 else f"{name} {sign} 1"


def _bits(argument: Argument, name: str) -> str:
    """The line that makes what the kernel takes, if that is not the C argument itself."""
    scalar = argument.scalar
    if scalar.boolean:
        return f"    {scalar.c} bits_{name} = {name} != 0;\n"
    if scalar.bits_c:
        return f"    {scalar.bits_c} bits_{name} = {scalar.name}_bits({name});\n"
    return ""


def comment(text: str) -> str:
    """A text for a comment in C, in ASCII: names may have letters of any alphabet."""
    return text.encode("ascii", "backslashreplace").decode()
