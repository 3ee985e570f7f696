"""The C that joins variants: one function that picks by algorithm and by what arguments allow."""

from collections.abc import Sequence

from course.aot.algorithms import Algorithm
from course.aot.manifest import Function, Manifest
from course.aot.output_files import MARK

from .kernel import comment, holds
from .templates import HEADER


def header(algorithms: Sequence[Algorithm], sources: Sequence[str]) -> str:
    """sources: where the variants' sources are, seen from this header."""
    functions = tuple(function for algorithm in algorithms for function in algorithm.functions)
    first = functions[0]
    name = first.out_name
    manifest = Manifest(functions, linked=name, sources=tuple(sources))
    listed = "".join(
        f" *   {number}: {comment(str(algorithm))}\n" for number, algorithm in enumerate(algorithms)
    )
    declarations = f"""\
/*
 * {comment(first.kernel)}. algo_id chooses among
{listed} * and what the arguments allow, among the variants: the one that relies on the most hints.
 * Returns CUDA_ERROR_INVALID_VALUE for another algo_id and where no variant takes the arguments, \
or the driver's error.
 */
{_prototype(first, name, ", int algo_id")};

/* With algo_id 0. */
{_prototype(first, f"{name}_default")};

int {name}_get_num_algos(void);"""
    return HEADER.format(
        first_line=_first_line(first),
        manifest=manifest.line,
        name=name,
        declarations=declarations,
        loading="Variants load by themselves, each at its first launch.",
    )


def source(algorithms: Sequence[Algorithm], header_name: str) -> str:
    functions = [function for algorithm in algorithms for function in algorithm.functions]
    first = functions[0]
    name, call = first.out_name, first.call(first.runtime)
    prototypes = [
        f"{function.prototype};\n"
        f"CUresult load_{function.name}(void);\nCUresult unload_{function.name}(void);\n"
        for function in functions
    ]
    numbered = list(enumerate(algorithms))
    cases = [
        f"        case {number}: return algorithm_{number}({call});\n" for number, _ in numbered
    ]
    loads = [
        f"    if (result == CUDA_SUCCESS) result = load_{function.name}();\n"
        for function in functions
    ]
    unloads = [
        f"    {{ CUresult one = unload_{function.name}(); "
        "if (result == CUDA_SUCCESS) result = one; }\n"
        for function in functions
    ]
    return f"""\
{_first_line(first)}
#include "{header_name}"

/* The variants. */
{"".join(prototypes)}
{"".join(_algorithm(number, algorithm) for number, algorithm in numbered)}\
{_prototype(first, name, ", int algo_id")} {{
    switch (algo_id) {{
{"".join(cases)}        default: return CUDA_ERROR_INVALID_VALUE;
    }}
}}

{_prototype(first, f"{name}_default")} {{
    return algorithm_0({call});
}}

int {name}_get_num_algos(void) {{
    return {len(algorithms)};
}}

/* Loads every variant: stops at the first that cannot be loaded. */
CUresult load_{name}(void) {{
    CUresult result = CUDA_SUCCESS;
{"".join(loads)}    return result;
}}

/* Unloads every variant: goes on after an error, and returns the first. */
CUresult unload_{name}(void) {{
    CUresult result = CUDA_SUCCESS;
{"".join(unloads)}    return result;
}}
"""


def _first_line(function: Function) -> str:
    what = f"variants of {comment(function.kernel)} for {function.target}"
    return f"{MARK}: {what}. To change it, link again."


def _prototype(function: Function, name: str, more: str = "") -> str:
    return f"CUresult {name}({function.parameters(function.runtime)}{more})"


def _algorithm(number: int, algorithm: Algorithm) -> str:
    """A C function of its own, since an argument may have the public function's name."""
    prototype = _prototype(algorithm.functions[0], f"algorithm_{number}")
    lines, conditions = [f"/* {comment(str(algorithm))} */", f"static {prototype} {{"], ""
    for function in algorithm.functions:
        names = function.c_names
        hints = [argument for argument in function.runtime if argument.hint]
        conditions = " && ".join(holds(argument, names) for argument in hints)
        call = f"return {function.name}({function.call(function.passed)});"
        lines.append(f"    if ({conditions})\n        {call}" if conditions else f"    {call}")
    if conditions:
        lines.append("    return CUDA_ERROR_INVALID_VALUE;")
    return "\n".join([*lines, "}\n\n"])
