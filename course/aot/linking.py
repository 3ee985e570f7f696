"""link: the exported variants of a kernel behind one function."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from course.errors import CourseError
from course.files import write_together

from .c import dispatch
from .c.dispatch import Algorithm
from .exporting import Exported
from .identifiers import check_out
from .manifest import Function, read_header
from .signature import counted
from .writing import refuse_others_files


@dataclass(frozen=True)
class Linked:
    """Variants behind one function. Prints as a table: algorithms, and the variants of each in the order they are tried."""

    name: str
    algorithms: tuple[Algorithm, ...]
    header: Path
    variant_sources: tuple[Path, ...]

    @property
    def sources(self) -> tuple[Path, ...]:
        return (self.header.with_suffix(".c"), *self.variant_sources)

    @property
    def headers(self) -> tuple[Path, ...]:
        return (self.header,)

    def __str__(self) -> str:
        lines = [f"{self.name}: {counted(len(self.algorithms), 'algorithm')}, {self.header}, .c"]
        for number, algorithm in enumerate(self.algorithms):
            lines.append(f"    {number}  {algorithm}")
            lines += [
                f"        {each.name}  {_hints(each) or 'any arguments'}"
                for each in algorithm.functions
            ]
        return "\n".join(lines)

    __repr__ = __str__


def _hints(function: Function) -> str:
    return ", ".join(f"{each.name}:{each.hint}" for each in function.runtime if each.hint)


def link(
    exported: Exported | str | Path | Iterable[Exported | str | Path],
    out: str | Path,
    force: bool = False,
) -> Linked:
    """Write NAME.h and NAME.c at `out` with a function that picks among variants.

    exported: what `export` returned, or headers that it wrote; several of one name.
    The function takes an algo_id: variants with the same constants and options are one algorithm, numbered in the order
    given. Within one, that variant is taken which relies on the most hints that hold.

    Raises CourseError where variants do not take the same arguments.
    """
    path = check_out(out)
    found = list(_headers(exported))
    if not found:
        raise CourseError("There is nothing to link: give at least one header.")
    variants = [(header, _function(header)) for header in found]
    _check_alike(variants)
    functions = [function for _, function in variants]
    algorithms = tuple(_algorithms(functions))
    header, source = (path.with_name(f"{path.name}{suffix}") for suffix in (".h", ".c"))
    sources = tuple(each.with_suffix(".c") for each in found)
    if header.resolve() in [each.resolve() for each in found]:
        raise CourseError(f"{header} is a header to link: name another output.")
    if missing := [each for each in sources if not each.is_file()]:
        raise CourseError(f"{missing[0]} is not there, beside its header: export it again.")
    seen = [
        os.path.relpath(each.resolve(), path.parent.resolve()) for each in sources
    ]  # where folders are links, too
    contents = {
        header: dispatch.header(algorithms, seen),
        source: dispatch.source(algorithms, header.name),
    }
    refuse_others_files(list(contents), force)
    write_together(contents)
    return Linked(functions[0].out_name, algorithms, header, sources)


def _headers(exported: Exported | str | Path | Iterable[Exported | str | Path]) -> Iterable[Path]:
    if isinstance(exported, Exported):
        yield from exported.headers
    elif isinstance(exported, (str, Path)):
        yield Path(exported)
    elif isinstance(exported, Iterable):
        for each in exported:
            yield from _headers(each)
    else:
        raise CourseError(f"link takes what export returned, or headers; this is {exported!r:.60}.")


def _function(header: Path) -> Function:
    content = read_header(header)
    if "function" not in content:
        raise CourseError(f"{header} is linked already: give the headers of its variants.")
    return Function.from_json(content["function"])


def _check_alike(variants: list[tuple[Path, Function]]) -> None:
    """Raise CourseError where they cannot stand behind one function."""
    (first_header, first), *others = variants
    names = {first.name: first_header}
    for header, function in others:
        both = f"{first_header} and {header}"
        if function.out_name != first.out_name:
            raise CourseError(
                f"{both} are of {first.out_name} and {function.out_name}: link one name at a time."
            )
        if _arguments(function) != _arguments(first):
            raise CourseError(
                f"{both} take different arguments, ({_arguments(first)}) and ({_arguments(function)}): give one of them "
                "another out-name."
            )
        if function.target != first.target:
            raise CourseError(
                f"{both} are for {first.target} and {function.target}: link one target at a time."
            )
        if function.name in names:
            raise CourseError(
                f"{names[function.name]} and {header} both hold {function.name}: give one, or export it under another name."
            )
        names[function.name] = header


def _arguments(function: Function) -> str:
    return ", ".join(f"{each.type.name} {each.name}" for each in function.runtime if each.type)


def _algorithms(functions: list[Function]) -> Iterable[Algorithm]:
    found: dict[str, list[Function]] = {}
    for function in functions:
        key = repr((function.kernel, function.constants, function.options))
        found.setdefault(key, []).append(function)
    for each in found.values():
        for other in each[1:]:
            if other.grid != each[0].grid:
                raise CourseError(
                    f"{each[0].name} and {other.name} have the grids {each[0].grid} and {other.grid}, and only what is "
                    "divisible would choose between them: export both with one grid."
                )
        # sorted() keeps the given order among equals.
        yield Algorithm(
            tuple(
                sorted(
                    each,
                    key=lambda function: (
                        -sum(argument.hint is not None for argument in function.runtime)
                    ),
                )
            )
        )
