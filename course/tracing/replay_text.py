"""The words of a replay: values and accesses."""

from course.triton_internals.interpreter import Kind

from .records import Value

VERBS: dict[Kind, str] = {"load": "loads", "store": "stores", "update": "updates"}


def value_text(name: str, value: Value) -> str:
    """What a variable holds: "x: fp32 [256] -2.1 … 3, 24 masked"."""
    if value.text is not None:
        return f"{name} → {value.of}[{value.text}]" if value.of else f"{name} = {value.text}"
    shape = ", ".join(map(str, value.shape))
    parts = [f"{name}: {value.dtype} [{shape}]"]
    if value.of:
        parts.append(f" into {value.of}")
    if value.least is not None and value.most is not None:
        parts.append(f" {_number(value.least)} … {_number(value.most)}")
    counts = ((value.nan, "NaN"), (value.inf, "infinite"), (value.masked, "masked"))
    parts += [f", {count:,} {word}" for count, word in counts if count]
    if value.undefined:
        parts.append(f", {f'{value.undefined:,}' if value.undefined > 0 else 'some'} undefined")
    return "".join(parts)


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
