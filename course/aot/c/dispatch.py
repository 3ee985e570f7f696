"""The C that joins variants: one function that picks, by algorithm and by what the arguments allow."""

from collections.abc import Sequence
from dataclasses import dataclass

from course.aot.manifest import Function, json_line
from course.aot.writing import MARK

from .kernel import BEGIN, END, INCLUDES, c_text, holds


@dataclass(frozen=True)
class Algorithm:
    """Variants that differ in their hints alone. Prints as what they have in common."""

    functions: tuple[Function, ...]
    """The most specific first."""

    def __str__(self) -> str:
        first = self.functions[0]
        constants = ", ".join(f"{name} = {value}" for name, value in first.constants.items())
        return f"{constants or 'no constants'}; {first.options}"


def header(algorithms: Sequence[Algorithm], sources: Sequence[str]) -> str:
    """sources: where the variants' sources are, seen from this header."""
    first = algorithms[0].functions[0]
    name = first.out_name
    guard = f"COURSE_AOT_{name}_H"
    content = {
        "linked": name,
        "functions": [each.to_json() for one in algorithms for each in one.functions],
    }
    listed = "".join(
        f" *   {number}: {c_text(str(each))}\n" for number, each in enumerate(algorithms)
    )
    return f"""\
{_first_line(first)}
{json_line({**content, "sources": [*sources]})}
#ifndef {guard}
#define {guard}

{INCLUDES}
{BEGIN}
/*
 * {c_text(first.kernel)}. algo_id chooses among
{listed} * and what the arguments allow, among the variants: the one that relies on the most hints.
 * Returns CUDA_ERROR_INVALID_VALUE for another algo_id and where no variant takes the arguments, or the driver's error.
 */
{_prototype(first, name, "int algo_id")};

/* With algo_id 0. */
{_prototype(first, f"{name}_default")};

int {name}_get_num_algos(void);

/*
 * May be called in any order, repeatedly and by any thread; unload while no launch is under way.
 * Variants load by themselves, each at its first launch.
 */
CUresult load_{name}(void);
CUresult unload_{name}(void);

{END}
#endif
"""


def source(algorithms: Sequence[Algorithm], header_name: str) -> str:
    functions = [function for each in algorithms for function in each.functions]
    first = functions[0]
    name = first.out_name
    names = [first.c_names[each.name] for each in first.runtime]
    cases = "".join(
        f"        case {number}: return algorithm_{number}({', '.join(['stream', *names])});\n"
        for number in range(len(algorithms))
    )
    return "\n".join(
        [
            f'{_first_line(first)}\n#include "{header_name}"\n',
            "/* The variants. */",
            *(
                f"{each.prototype};\nCUresult load_{each.name}(void);\nCUresult unload_{each.name}(void);"
                for each in functions
            ),
            "",
            *(_algorithm(number, each) for number, each in enumerate(algorithms)),
            f"{_prototype(first, name, 'int algo_id')} {{",
            f"    switch (algo_id) {{\n{cases}        default: return CUDA_ERROR_INVALID_VALUE;\n    }}\n}}\n",
            f"{_prototype(first, f'{name}_default')} {{",
            # Not by the function's own name: an argument may have the same.
            f"    return algorithm_0({', '.join(['stream', *names])});\n}}\n",
            f"int {name}_get_num_algos(void) {{\n    return {len(algorithms)};\n}}\n",
            _all_of("load", name, functions, "stops at the first that cannot be loaded"),
            _all_of("unload", name, functions, "goes on after an error, and returns the first"),
        ]
    )


def _first_line(function: Function) -> str:
    return f"{MARK}: variants of {c_text(function.kernel)} for {function.target}. To change it, link again."


def _prototype(function: Function, name: str, *more: str) -> str:
    parameters = ["CUstream stream", function.parameters(function.runtime), *more]
    return f"CUresult {name}({', '.join(filter(None, parameters))})"


def _algorithm(number: int, algorithm: Algorithm) -> str:
    lines, conditions = [f"/* {c_text(str(algorithm))} */"], ""
    lines.append(f"static {_prototype(algorithm.functions[0], f'algorithm_{number}')} {{")
    for function in algorithm.functions:
        conditions = " && ".join(
            holds(each, function.c_names) for each in function.runtime if each.hint
        )
        call = f"return {function.name}({', '.join(['stream', *(function.c_names[each.name] for each in function.passed)])});"
        lines.append(f"    if ({conditions})\n        {call}" if conditions else f"    {call}")
    if conditions:
        lines.append("    return CUDA_ERROR_INVALID_VALUE;")
    return "\n".join([*lines, "}\n"])


def _all_of(verb: str, name: str, functions: Sequence[Function], what: str) -> str:
    lines = [
        f"/* {verb.capitalize()}s every variant: {what}. */",
        f"CUresult {verb}_{name}(void) {{",
    ]
    lines.append("    CUresult result = CUDA_SUCCESS;")
    for each in functions:
        if verb == "load":
            lines.append(f"    if (result == CUDA_SUCCESS) result = load_{each.name}();")
        else:
            lines.append(
                f"    {{ CUresult one = unload_{each.name}(); if (result == CUDA_SUCCESS) result = one; }}"
            )
    return "\n".join([*lines, "    return result;", "}\n"])
