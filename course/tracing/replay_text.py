"""What a step has done, in words: for a table that needs no script."""

from typing import Any

Json = dict[str, Any]


def named(program: Any) -> str:
    used = max((axis + 1 for axis in range(3) if program[axis]), default=1)
    return str(program[0]) if used == 1 else str(tuple(program[:used]))


def grid_text(sizes: list[int]) -> tuple[int, ...]:
    """Without the axes of one program at its end."""
    used = max((axis + 1 for axis in range(3) if sizes[axis] > 1), default=1)
    return tuple(sizes[:used])


def value_text(name: str, value: Json) -> str:
    if "text" in value:
        return (
            f"{name} = {value['text']}"
            if "of" not in value
            else f"{name} → {value['of']}[{value['text']}]"
        )
    shape = ", ".join(map(str, value["shape"]))
    into = f" into {value['of']}" if "of" in value else ""
    spread = f" {_number(value['least'])} … {_number(value['most'])}" if "least" in value else ""
    odd = "".join(
        f", {value[kind]:,} {word}"
        for kind, word in (("nan", "NaN"), ("inf", "infinite"))
        if kind in value
    )
    masked = f", {value['masked']:,} masked" if "masked" in value else ""
    return f"{name}: {value['dtype']} [{shape}]{into}{spread}{odd}{masked}"


def _number(value: float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def touch_text(touch: Json) -> str:
    verb = {"load": "loads", "store": "stores", "update": "updates"}[touch["kind"]]
    lanes = f"{touch['lanes']:,} lane{'s' if touch['lanes'] != 1 else ''}"
    masked = f", {touch['masked']:,} masked" if touch["masked"] else ""
    outside = f", {touch['outside']:,} outside the tensor" if touch.get("outside") else ""
    first, last = touch.get("first", ""), touch.get("last", "")
    where = first if first == last else f"{first} … {last}"
    return f"{verb} {where or ('memory of no tensor' if touch['lanes'] else 'nothing')} ({lanes}{masked}{outside})"
