"""What export and link return."""

from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

from .manifest import Function, promises_of
from .options import counted
from .variant_order import Algorithm


@dataclass(frozen=True)
class Exported:
    """A kernel's C, a header and a source for each variant. Prints as a table."""

    name: str
    functions: tuple[Function, ...]
    headers: tuple[Path, ...]
    warnings: tuple[str, ...] = ()
    """What makes a function slow that could be fast: spills, and loads that could be wider."""

    @property
    def sources(self) -> tuple[Path, ...]:
        return tuple(header.with_suffix(".c") for header in self.headers)

    def __str__(self) -> str:
        first = self.functions[0]
        lines = [f"{self.name}: {first.kernel} for {first.target}, grid {first.grid}"]
        for function, header in zip(self.functions, self.headers, strict=True):
            lines.append(f"    {function.name}  {function.options}")
            lines.append(f"        {function.needs}")
            lines.append(f"        {header}, .c")
        for warning in self.warnings:
            text = f"Warning: {warning}"
            lines += wrap(text, 100, initial_indent=" " * 4, subsequent_indent=" " * 8)
        return "\n".join(lines)

    __repr__ = __str__


@dataclass(frozen=True)
class Linked:
    """Variants behind one function. Prints as a table: the algorithms, and the variants of each in
    the order they are tried."""

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
            for function in algorithm.functions:
                promises = promises_of(function.runtime) or "any arguments"
                lines.append(f"        {function.name}  {promises}")
        return "\n".join(lines)

    __repr__ = __str__
