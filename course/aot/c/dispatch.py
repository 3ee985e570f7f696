"""The C that joins variants: one function that picks by algorithm and by what arguments allow."""

from collections.abc import Sequence

from course.aot.manifest import Manifest
from course.aot.output_files import MARK
from course.aot.variant_order import Algorithm

from .templates import comment, filled


def files(
    algorithms: Sequence[Algorithm], sources: Sequence[str], header_name: str
) -> tuple[str, str]:
    """The header and the source. sources: where the variants' sources are, seen from these."""
    functions = tuple(function for algorithm in algorithms for function in algorithm.functions)
    first = functions[0]
    manifest = Manifest(functions, linked=first.out_name, sources=tuple(sources))
    what = f"variants of {comment(first.kernel)} for {first.target}"
    values = {
        "first_line": f"{MARK}: {what}. To change it, link again.",
        "manifest_line": manifest.line,
        "header_name": header_name,
        "name": first.out_name,
        "first": first,
        "functions": functions,
        "algorithms": algorithms,
        "parameters": first.parameters(first.runtime),
        "call": first.call(first.runtime),
    }
    return filled("linked.h", **values), filled("linked.c", **values)
