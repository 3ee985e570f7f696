"""Which promises about arguments, that one is divisible by 16 or is 1, would let loads be wide.

A load is wide along an axis if neighboring lanes read neighboring addresses, the first of them at a
multiple of 16 bytes, and if the mask does not change within those 16 bytes. Both follow from what
is known of the arguments that addresses and masks are computed from, which the TTIR shows.
"""

import re

from course.gpus.limits import WIDEST_BYTES

from .ttir_values import EITHER, SUM, TtirValue, Values

Needs = frozenset[str] | None
"""The arguments that must be divisible so that a value is; None if no promise makes it so."""
NOTHING: Needs = frozenset()


def missing_promises(ttir: str) -> dict[str, int]:
    """The promises that may let more loads of blocks be wide, by argument: 16, that it is a
    multiple of 16, or 1, that it is 1."""
    missing: dict[str, int] = {}
    for load in Values(ttir).loads:
        ones, multiples = _needs_of_load(load)
        missing |= dict.fromkeys(multiples - missing.keys(), 16) | dict.fromkeys(ones, 1)
    return missing


def _needs_of_load(load: TtirValue) -> tuple[frozenset[str], frozenset[str]]:
    """The arguments that must be 1, and those that must be multiples of 16; none if no promise
    makes the load wide."""
    bits = re.search(r"!tt\.ptr<[a-z]+(\d+)", load.text)
    pointers, *mask = load.operands[:2]
    steps = _steps(pointers, ())
    if not bits or not steps:
        return frozenset(), frozenset()
    # The axis for which the least must be promised; among equals the last one.
    axis = min(steps, key=lambda axis: (len(steps[axis]), -axis))
    elements = max(1, WIDEST_BYTES * 8 // int(bits[1]))
    needs = [_needs(pointers, elements, (), steps[axis])]
    needs += [_mask_needs(each, axis, elements, ()) for each in mask]
    multiples = _joined(needs)
    return (frozenset(), frozenset()) if multiples is None else (steps[axis], multiples)


def _joined(needs: list[Needs]) -> Needs:
    known = [each for each in needs if each is not None]
    return frozenset().union(*known) if len(known) == len(needs) else None


SAME = {
    "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans",
    "arith.extsi", "arith.extui", "arith.trunci", "tt.bitcast",
}  # fmt: skip
"""Operations whose result holds what the operand holds."""
ALL = {EITHER, SUM, "arith.subi", "tt.addptr", "arith.minsi", "arith.maxsi", "arith.minui"}
"""Operations whose result is divisible if all operands are."""

Path = tuple[int, ...]
"""The values that lead here, by their ids: a loop's value depends on itself."""


def _needs(
    value: TtirValue,
    elements: int,
    path: Path,
    ones: frozenset[str] = frozenset(),
    in_product: bool = False,
) -> Needs:
    """What must be promised so that a value is a multiple of so many elements, or of 16 bytes if
    it is an address, apart from a range that counts up from there.

    ones: the arguments that are taken to be 1.
    in_product: whether the range would be multiplied, so that it counts up in other steps.
    """
    if id(value) in path or "tt.divisibility" in value.text:
        return NOTHING
    path += (id(value),)
    if value.operation == "argument":
        return frozenset([value.name]) if re.match(r"i\d|!tt\.ptr", value.text) else None
    if value.operation == "tt.make_range" and in_product:
        return None
    if value.operation in ("arith.constant", "tt.make_range"):
        return NOTHING if _first_number(value.text) % elements == 0 else None
    if value.operation == "arith.muli":
        one, other = value.operands
        if _name(one) in ones or _name(other) in ones:
            factor = other if _name(one) in ones else one
            return _needs(factor, elements, path, ones, in_product)
        in_product = True
    parts = [_needs(operand, elements, path, ones, in_product) for operand in value.operands]
    if value.operation in SAME | ALL:
        return _joined(parts)
    if value.operation == "arith.select":
        return _joined(parts[1:])
    if value.operation == "arith.muli":
        return min((part for part in parts if part is not None), key=len, default=None)
    return None


def _mask_needs(value: TtirValue, axis: int, elements: int, path: Path) -> Needs:
    """What must be promised so that a mask is the same for so many neighbors along an axis."""
    if id(value) in path or value.operation in ("argument", "arith.constant", "tt.splat"):
        return NOTHING
    path += (id(value),)
    if value.operation == "arith.cmpi":
        if not any(_varies(operand, axis, ()) for operand in value.operands):
            return NOTHING
        return _joined([_needs(operand, elements, ()) for operand in value.operands])
    if value.operation == "tt.expand_dims":
        inner = _before_expansion(value, axis)
        return NOTHING if inner is None else _mask_needs(value.operands[0], inner, elements, path)
    if value.operation in ("arith.andi", "arith.ori", "arith.xori", "tt.broadcast", EITHER):
        return _joined([_mask_needs(each, axis, elements, path) for each in value.operands])
    return None


def _varies(value: TtirValue, axis: int, path: Path) -> bool:
    """Whether a value may differ between neighbors along an axis."""
    if id(value) in path or value.operation in ("argument", "arith.constant", "tt.splat"):
        return False
    if value.operation == "tt.make_range":
        return axis == 0
    if value.operation == "tt.expand_dims":
        inner = _before_expansion(value, axis)
        return inner is not None and _varies(value.operands[0], inner, path)
    return any(_varies(operand, axis, (*path, id(value))) for operand in value.operands)


def _steps(value: TtirValue, path: Path) -> dict[int, frozenset[str]]:
    """The axes along which a value goes up by 1 from each element to the next, each with the
    arguments that must be 1 for it."""
    if id(value) in path:
        return {}
    if value.operation == "tt.make_range":
        return {0: frozenset()}
    path += (id(value),)
    inner = [_steps(operand, path) for operand in value.operands]
    if value.operation == "tt.expand_dims":
        added = _axis(value)
        return {axis + (axis >= added): ones for axis, ones in inner[0].items()}
    if value.operation in SAME | {EITHER, SUM, "arith.subi", "tt.addptr"}:
        return {axis: ones for each in inner for axis, ones in each.items()}
    if value.operation == "arith.muli":
        names = [_name(operand) for operand in reversed(value.operands)]
        return {
            axis: ones | {name}
            for each, name in zip(inner, names, strict=True)
            for axis, ones in each.items()
            if name
        }
    return {}


def _name(value: TtirValue) -> str:
    """The argument that a value is in each of its elements, if nothing is promised of it."""
    while value.operation in SAME and value.operands:
        value = value.operands[0]
    return "" if "tt.divisibility" in value.text else value.name


def _axis(value: TtirValue) -> int:
    return _first_number(value.text.partition("axis")[2])


def _before_expansion(value: TtirValue, axis: int) -> int | None:
    """The operand's axis that became an axis of a tt.expand_dims; None for the one it has added."""
    added = _axis(value)
    return None if axis == added else axis - (axis > added)


def _first_number(text: str) -> int:
    """The number that a text writes first: of a constant its value, of a range its start."""
    text = text.partition("start")[2] or text.partition("dense<")[2] or text
    match = re.search(r"-?\d+", text)
    return int(match[0]) if match else 0
