"""Rows as plain text."""

from collections.abc import Callable, Sequence


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equally many cells, each column as wide as its widest cell."""
    lines = numbers(rows, cell=str.ljust).split("\n")
    return "\n".join(line.rstrip() for line in lines)


def numbers(
    rows: Sequence[Sequence[str]],
    least: int = 0,
    label: Callable[[str, int], str] = str.ljust,
    cell: Callable[[str, int], str] = str.rjust,
) -> str:
    """Rows of a label and equally many numbers, in columns of at least `least` characters.

    label, cell: what pads the first cell of a row, and the others.
    """
    first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    widths = [max(least, width) for width in widths]
    return "\n".join(
        "  ".join([label(name, first), *map(cell, cells, widths)]) for name, *cells in rows
    )
