"""The words of a replay: grids, values and accesses."""

from course.triton_internals.interpreter import Grid, Kind

from .records import Value

VERBS: dict[Kind, str] = {"load": "loads", "store": "stores", "update": "updates"}


def grid_text(grid: Grid) -> tuple[int, ...]:
    """A grid without the axes of one program at its end."""
    return grid[: max((axis + 1 for axis in range(3) if grid[axis] > 1), default=1)]


def value_words(value: Value) -> list[tuple[str, bool]]:
    """What a variable holds, as it stands behind its name: parts, each with whether it is odd."""
    if value.text is not None:
        return [(f" → {value.of}[{value.text}]" if value.of else f" = {value.text}", False)]
    words = f": {value.dtype} [{', '.join(map(str, value.shape))}]"
    if value.of:
        words += f" into {value.of}"
    if value.least is not None and value.most is not None:
        words += f" {_number(value.least)} … {_number(value.most)}"
    lacking = f"{value.undefined:,}" if value.undefined > 0 else "some"
    counts = (
        (value.nan, f"{value.nan:,} NaN", True),
        (value.inf, f"{value.inf:,} infinite", True),
        (value.masked, f"{value.masked:,} masked", False),
        (value.undefined, f"{lacking} undefined", True),
    )
    return [(words, False), *((f", {text}", is_odd) for count, text, is_odd in counts if count)]


def value_text(name: str, value: Value) -> str:
    """What a variable holds: "x: fp32 [256] -2.1 … 3, 24 masked"."""
    return name + "".join(part for part, _ in value_words(value))


def touch_text(kind: Kind, lanes: int, masked: int, outside: int, first: str, last: str) -> str:
    """An access in words: "loads x_ptr[0] … x_ptr[99] (100 lanes, 28 masked)"."""
    place = first if first == last else f"{first} … {last}"
    place = place or ("memory of no tensor" if lanes else "nothing")
    counts = [f"{lanes:,} lane{'s' if lanes != 1 else ''}"]
    if masked:
        counts.append(f"{masked:,} masked")
    if outside:
        counts.append(f"{outside:,} outside the tensor")
    return f"{VERBS[kind]} {place} ({', '.join(counts)})"


def _number(number: float) -> str:
    return f"{number:.4g}" if isinstance(number, float) else str(number)
