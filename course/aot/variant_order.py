"""Which variants of a kernel stand behind one function, and in which order they are tried."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course.errors import CourseError

from .grid import parse_grid
from .manifest import Function


@dataclass(frozen=True)
class Algorithm:
    """Variants that differ in their hints alone. Prints as what they have in common."""

    functions: tuple[Function, ...]
    """The most specific first."""

    def __str__(self) -> str:
        first = self.functions[0]
        return f"{first.constants_text or 'no constants'}; {first.options}"


def algorithms_of(functions: Sequence[Function]) -> tuple[Algorithm, ...]:
    """The algorithms in the order of their first variants.

    Raises CourseError if two variants of an algorithm have different grids.
    """
    groups: dict[str, list[Function]] = {}
    for function in functions:
        key = repr((function.kernel, function.constants, function.options))
        groups.setdefault(key, []).append(function)
    for first, *others in groups.values():
        for other in others:
            if len({str(parse_grid(each.grid, each.arguments)) for each in (first, other)}) > 1:
                raise CourseError(
                    f"{first.name} and {other.name} have the grids {first.grid} and {other.grid}, "
                    "and only what is divisible would choose between them: "
                    "export both with one grid."
                )
    # sorted() keeps the order among equals.
    return tuple(
        Algorithm(tuple(sorted(group, key=lambda function: -len(function.hinted))))
        for group in groups.values()
    )


def check_alike(variants: Sequence[tuple[Path, Function]]) -> None:
    """Raise CourseError if variants, with their headers, cannot stand behind one function."""
    (first_header, first), *others = variants
    headers = {first.name: first_header}
    first_of = {first.kernel: (first_header, first)}
    for header, function in others:
        both = f"{first_header} and {header}"
        if function.out_name != first.out_name:
            names = f"{first.out_name} and {function.out_name}"
            raise CourseError(f"{both} are of {names}: link one name at a time.")
        one, other = _parameters(first), _parameters(function)
        if one != other:
            raise CourseError(
                f"{both} take different arguments, ({one}) and ({other}): "
                "give one of them another out-name."
            )
        if function.target != first.target:
            targets = f"{first.target} and {function.target}"
            raise CourseError(f"{both} are for {targets}: link one target at a time.")
        if function.triton != first.triton:
            versions = f"{first.triton} and {function.triton}"
            raise CourseError(f"{both} are of Triton {versions}: export both with one.")
        earlier_header, earlier = first_of.setdefault(function.kernel, (header, function))
        if function.text_hash != earlier.text_hash:
            raise CourseError(
                f"{earlier_header} and {header} hold {function.kernel} as it was before a change "
                "and after it: export all its variants again, or empty the folder first."
            )
        if function.name in headers:
            raise CourseError(
                f"{headers[function.name]} and {header} both hold {function.name}: "
                "give one, or export it under another name."
            )
        headers[function.name] = header


def _parameters(function: Function) -> str:
    return ", ".join(f"{argument.type} {argument.name}" for argument in function.runtime)
