"""The C of one exported function: its header and its source."""

from course.aot.cubin import SCRATCH, Cubin
from course.aot.grid import parse_grid
from course.aot.manifest import Function, Manifest
from course.aot.output_files import MARK
from course.aot.signature import Argument
from course.gpus.limits import MOST_GRID, TARGETS

from .templates import BITS, GRID, comment, filled

PLAIN_SHARED_BYTES = 48 * 1024
"""The shared memory that a program may have without asking for it."""


def header(function: Function) -> str:
    """Prototypes for C and C++, with what callers must know."""
    promises = [(function.c_names[each.name], _promise(each)) for each in function.arguments]
    parameters = function.parameters(function.runtime).removeprefix("CUstream stream")
    return filled(
        "kernel.h",
        first_line=_first_line(function),
        manifest_line=f"{Manifest((function,)).line}\n// tt-linker-backend: cuda",
        name=function.name,
        function=function,
        promises=[(name, promise) for name, promise in promises if promise],
        constants=function.constants_text or "none",
        linker=f"{function.name}:{parameters.removeprefix(', ')}:{_algorithm(function)}",
    )


def source(function: Function, cubin: Cubin, header_name: str) -> str:
    """What loads and launches the kernel, and its machine code."""
    grid = parse_grid(function.grid, function.arguments)
    sizes = " ".join(size.c for size in grid)
    scratch = SCRATCH[: len(cubin.sizes) - len(function.passed)]
    converted, pointers = [], []
    for argument in function.passed:
        name, scalar = function.c_names[argument.name], argument.scalar
        if scalar.boolean:
            converted.append((name, scalar.c, f"{name} != 0"))
        elif scalar.bits_c:
            converted.append((name, scalar.bits_c, f"{scalar.name}_bits({name})"))
        own = scalar.boolean or scalar.bits_c
        pointers.append(f"&bits_{name}" if own else f"&{name}")
    symbol = cubin.symbol.encode()
    return filled(
        "kernel.c",
        first_line=_first_line(function),
        header_name=header_name,
        helpers=[
            *(text for name, text in sorted(GRID.items()) if f"{name}(" in sizes),
            *(BITS[name] for name in BITS if any(each.type == name for each in function.passed)),
        ],
        code=[f"0x{byte:02x}" for byte in cubin.code],
        asks_for_shared=function.shared_bytes > PLAIN_SHARED_BYTES,
        capability=TARGETS[function.target].capability,
        symbol="".join(f"\\{byte:03o}" if byte > 127 else chr(byte) for byte in symbol),
        function=function,
        grid=grid,
        broken=function.conditions("!=", " || ", function.passed),
        converted=converted,
        scratch=scratch,
        pointers=[*pointers, *(f"&{name}" for name in scratch)],
        most=MOST_GRID,
    )


def _first_line(function: Function) -> str:
    what = f"{comment(function.kernel)} for {function.target}, by Triton {function.triton}"
    return f"{MARK}: {what}. To change it, export again."


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
