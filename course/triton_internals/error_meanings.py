"""What errors of the compiler and of the interpreter mean, and what to write instead."""

import ast
import re
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from string import Formatter
from types import BuiltinMethodType
from typing import Any

import triton
from triton import language as tl

from course.type_names import AnyValue

from .kernel_place import Place, chain_of

OTHER_NAMES = {"newaxis": "None", "transpose": "trans", "amax": "max", "amin": "min"}
"""A function's or a constant's name elsewhere -> its name in a kernel."""


def meaning(error: BaseException) -> str:
    """What an error means, in a clause without a full stop; empty where its own words say it.

    Goes by error_meanings.toml: the first whose pattern is found, and whose every brace can be
    filled.
    """
    last, place = chain_of(error)[-1], Place.of(error)
    words = f"{type(last).__name__}: {getattr(last, 'message', None) or last}"
    words = re.sub(r"'?constexpr\[(\w+)\]'?", r"\1", words)
    words = re.sub(r"<\[(['\d, ]+)\], (\w+)>", _block_type, words)
    for at, pattern, says in _meanings():
        if at not in ("both", "kernel" if place.in_kernel else "launch"):
            continue
        match = re.search(pattern, words, re.DOTALL)
        if match and (text := _filled(says, place, match)):
            return text
    return ""


def _block_type(written: "re.Match[str]") -> str:
    """A block's type from Triton's own text: "fp32 [64, 32]" from "<['64', '32'], fp32>"."""
    sizes = written[1].replace("'", "")
    return f"{written[2]} [{sizes}]"


@cache
def _meanings() -> list[tuple[str, str, str]]:
    """Each meaning: for "kernel", "launch" or "both", its pattern and its clause."""
    table = tomllib.loads(Path(__file__).with_name("error_meanings.toml").read_text())
    return [(at, pattern, says) for at, pairs in table.items() for pattern, says in pairs]


def _filled(says: str, place: Place, match: "re.Match[str]") -> str:
    """A clause with its braces filled; empty where one of them cannot be."""
    names = {name for _, name, *_ in Formatter().parse(says) if name}
    groups = {f"w{number}": text for number, text in enumerate(match.groups(), start=1)}
    texts = {name: groups[name] if name in groups else FACTS[name](place) for name in names}
    return says.format(**texts) if all(texts.values()) else ""


def _is_value(held: Any) -> bool:
    return isinstance(held, tl.tensor)


def _is_pointer(held: Any) -> bool:
    return _is_value(held) and held.type.scalar.is_ptr()


def _is_condition(held: Any) -> bool:
    return _is_value(held) and held.type.scalar.is_bool()


def _is_several(held: Any) -> bool:
    return isinstance(held, (tuple, list, tl.tuple))


def _nothing(place: Place) -> str:
    """The first name in the expression that holds None."""
    names = (each.id for each in ast.walk(place.node) if isinstance(each, ast.Name))
    held = ((name, place.names[name]) for name in names if name in place.names)
    return next((name for name, each in held if getattr(each, "value", each) is None), "")


def _shape(held: Any) -> list[int]:
    """A block's shape; empty for any other value."""
    is_block = _is_value(held) and held.type.is_block()
    return [int(size) for size in held.shape] if is_block else []


def _mask(place: Place) -> str:
    """The mask of a call, by its name or its place."""
    named = place.call.keywords if place.call else []
    by_place = place.operand(2 if place.function.endswith("store") else 1)
    return next((ast.unparse(each.value) for each in named if each.arg == "mask"), by_place)


def _misplaced(place: Place) -> str:
    """A parameter whose name ends in _ptr, and which was given no pointer."""
    named = (each for each in place.names.items() if each[0].endswith("_ptr"))
    return next((name for name, held in named if _is_value(held) and not _is_pointer(held)), "")


def _subscript(place: Place) -> str:
    return ast.unparse(place.node) if isinstance(place.node, ast.Subscript) else ""


def _picked(place: Place) -> str:
    """A condition that indexes a block."""
    is_comparison = isinstance((*place.operands, None, None)[1], ast.Compare)
    is_known = is_comparison or _is_condition(place.held(1))
    return place.operand(1) if is_known and _subscript(place) else ""


def _sliced(place: Place) -> str:
    """A block that is indexed by slices of which one leaves something out."""
    slices = (each for each in ast.walk(place.node) if isinstance(each, ast.Slice))
    return (
        _subscript(place) if any(each.lower or each.upper or each.step for each in slices) else ""
    )


def _as_range(place: Place) -> str:
    """A slice of a pointer, as offsets."""
    index = getattr(place.node, "slice", None)
    if not isinstance(index, ast.Slice):
        return ""
    start = ast.unparse(index.lower) if index.lower else "0"
    match index.upper:
        case ast.BinOp(left=left, op=ast.Add(), right=size) if ast.unparse(left) == start:
            length = ast.unparse(size)
        case _:
            length = ast.unparse(index.upper) if index.upper and start == "0" else "BLOCK_SIZE"
    block = f"tl.arange(0, {length})"
    return block if start == "0" else f"{start} + {block}"


def _listed(place: Place) -> str:
    """A list or a tuple that is added to a pointer."""
    written = isinstance((*place.operands, None, None)[1], (ast.List, ast.Tuple))
    is_listed = _is_pointer(place.held(0)) and (written or _is_several(place.held(1)))
    return place.operand(1) if is_listed else ""


def _second_pointer(place: Place) -> str:
    """The second operand of a call, where it is a pointer, or is computed with one."""
    second = place.operands[1] if len(place.operands) > 1 else ast.Pass()
    names = (each.id for each in ast.walk(second) if isinstance(each, ast.Name))
    return place.operand(1) if any(_is_pointer(place.names.get(name)) for name in names) else ""


def _foreign(place: Place) -> str:
    """A name of PyTorch's, NumPy's or math's."""
    for node in ast.walk(place.node):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            home = getattr(place.names.get(node.value.id), "__name__", "")
            if home in ("torch", "numpy", "math"):
                return ast.unparse(node)
    return ""


def _in_triton(place: Place) -> str:
    """A foreign function, or a method, by the name that it has in Triton's language."""
    name = (_foreign(place) or getattr(place.node, "attr", "")).rpartition(".")[2]
    name = OTHER_NAMES.get(name, name)
    return name if name == "None" else f"tl.{name}" if name and hasattr(tl, name) else ""


def _uncalled(place: Place) -> str:
    """A method of a tensor that stands without its parentheses, or what holds one."""
    if name := place.first(lambda held: isinstance(held, BuiltinMethodType)):
        return name
    given = place.call.args if place.call else []
    for each in given:
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            held = getattr(place.names.get(each.value.id), each.attr, None)
            if isinstance(held, BuiltinMethodType):
                return ast.unparse(each)
    return ""


def _call_of(method: str) -> str:
    """A call of a method as a launch takes what it gives: a size or a stride for each axis."""
    several = method.endswith((".stride", ".size"))
    return method and f"{'*' * several}{method}()"


def _called_property(place: Place) -> str:
    """A block's .T that is called."""
    match place.call:
        case ast.Call(func=ast.Attribute(attr="T" | "shape" | "dtype" as name)):
            return f".{name}"
    return ""


def _shapeless(place: Place) -> str:
    """A function that takes a shape, and was given its sizes one by one."""
    makes = place.function in ("tl.zeros", "tl.full")
    return place.function if makes and len(place.operands) > 1 else ""


def _along_axes(place: Place) -> str:
    """A pointer's indices, one for each axis, as offsets."""
    index = getattr(place.node, "slice", None)
    if not isinstance(index, ast.Tuple) or any(isinstance(e, ast.Slice) for e in index.elts):
        return ""
    names = ("row", "col") if len(index.elts) == 2 else range(len(index.elts))
    pairs = zip(index.elts, names, strict=True)
    return " + ".join(f"{ast.unparse(each)} * stride_{name}" for each, name in pairs)


def _range_size(place: Place) -> str:
    """How long a range is from `a` to `a + size`, from `i * size` to `(i + 1) * size`, or to b."""
    start, end = place.operand(0), (*place.operands, None, None)[1]
    if not isinstance(end, ast.BinOp):
        return place.operand(1) if isinstance(place.held(1), int) else ""
    left, size = ast.unparse(end.left), ast.unparse(end.right)
    known = {ast.Add: start, ast.Mult: start.removesuffix(f" * {size}") + " + 1"}
    return size if left == known.get(type(end.op)) else ""


def _length(place: Place) -> int | None:
    """The last operand of a range, where that is a constant."""
    held = place.held(max(0, len(place.operands) - 1))
    return held if isinstance(held, int) else None


def _meeting(place: Place) -> list[tuple[str, list[int]]]:
    """Two blocks that meet and do not fit: what each is called, and its shape."""
    owns = [place.held(0), place.held(1)]
    blocks = owns
    for frame in place.frames:
        held = frame.f_locals
        if frame.f_code.co_name in ("broadcast_impl_value", "dot") and "lhs" in held:
            blocks = [held["lhs"], held["rhs"]]
    if not all(map(_shape, blocks)):
        return []
    is_call = place.function != "tl.dot" and isinstance(place.node, ast.Call)
    if is_call and blocks is not owns:
        roles = {_is_pointer: "the block of pointers", _is_condition: "the mask"}
        known = ([role for what, role in roles.items() if what(block)] for block in blocks)
        return [
            ((*role, "the value")[0], _shape(each))
            for role, each in zip(known, blocks, strict=True)
        ]
    # By itself Triton puts 1 before the shape of the one that has fewer axes.
    pairs = enumerate(zip(owns, blocks, strict=True))
    return [(place.operand(i), _own_shape(place, i, own, block)) for i, (own, block) in pairs]


def _own_shape(place: Place, number: int, own: AnyValue, block: AnyValue) -> list[int]:
    """An operand's shape, before Triton has put 1 before it: a name has no [None, :]."""
    shape = _shape(own) or _shape(block)
    added = not _shape(own) and place.operand(number).isidentifier() and shape[0] == 1
    return shape[1:] if added and len(shape) > 1 else shape


def _turned(place: Place) -> str:
    """What to write where two blocks fit as soon as the axes of one are turned."""
    meeting = _meeting(place)
    for (what, fixed), (name, other) in zip(meeting, meeting[::-1], strict=True):
        if (what, len(fixed), len(other)) == ("the block of pointers", 1, 2):
            return "a block of one axis takes a mask of one, such as offsets < n"
        if len(fixed) == len(other) == 1:
            reduced = re.search(r"\.(sum|max|min)\(", ast.unparse(place.node))
            axis = "perhaps it must be reduced along the other axis" if reduced else ""
            if "the value" in (what, name):
                return axis or "each pointer takes one value"
            pairs = "for a tile of all pairs give one [:, None] and the other [None, :]"
            return f"{axis}; {pairs}" if axis else pairs
        rows, cols = fixed if len(fixed) == 2 else (0, 0)
        fitting = {
            (cols, rows): "one is turned: take .T of it, or exchange [:, None] and [None, :]",
            (rows,): f"write {name}[:, None]",
            (1, rows): (
                f"write {name}[:, None]" if name.isidentifier() else "write [:, None] for [None, :]"
            ),
            (cols, 1): "write [None, :] for [:, None], or reduce along the other axis",
        }
        if cols == other[-1] == 1:
            return "write [None, :] for [:, None] in one of them"
        if tuple(other) in fitting:
            return fitting[tuple(other)]
    return "axes that meet must be equally long, or 1"


def _with_a_store(place: Place) -> str:
    """An expression that computes with what tl.store gives back."""
    calls = (each for each in place.operands if isinstance(each, ast.Call))
    stores = any(ast.unparse(each.func).endswith("tl.store") for each in calls)
    return ast.unparse(place.node) if stores and isinstance(place.node, ast.BinOp) else ""


FACTS: dict[str, Callable[[Place], object]] = {
    "a": lambda place: place.operand(0),
    "along_axes": _along_axes,
    "as_range": _as_range,
    "b": lambda place: place.operand(1),
    "c": lambda place: place.operand(2) or "…",
    "b_shape": lambda place: _shape(place.held(1)),
    "block_size": lambda place: name if (name := place.first(_is_value)).isupper() else "",
    "called_property": _called_property,
    "descriptor": lambda place: place.first(
        lambda held: isinstance(held, tl.core.tensor_descriptor_base)
    ),
    "expression": lambda place: ast.unparse(place.node).removesuffix("pass"),
    "extreme": lambda place: place.function if place.function in ("tl.max", "tl.min") else "",
    "foreign": _foreign,
    "function": lambda place: place.function,
    "gathered": lambda place: _shape(place.held(1)) and _subscript(place),
    "in_triton": _in_triton,
    "indexed_pointer": lambda place: place.operand(0) if _is_pointer(place.held(0)) else "",
    "its_call": lambda place: _call_of(_uncalled(place)),
    "length": _length,
    "listed": _listed,
    "literal": lambda place: text if (text := place.operand(1)).isdigit() else "",
    "mask": _mask,
    "met": lambda place: " and ".join(f"{name} is {shape}" for name, shape in _meeting(place)),
    "misplaced": _misplaced,
    "parameters": lambda place: ", ".join(
        names if isinstance(names := place.held(0), dict) else ()
    ),
    "nothing": _nothing,
    "of_triton": lambda place: place.function if place.function.startswith("tl.") else "",
    "picked": _picked,
    "pointed": lambda place: place.first(_is_pointer),
    "power": lambda place: triton.next_power_of_2(_length(place) or 0),
    "range_size": _range_size,
    "second_pointer": _second_pointer,
    "shapeless": _shapeless,
    "several": lambda place: place.first(_is_several),
    "sliced": _sliced,
    "subscript": _subscript,
    "turned": _turned,
    "uncalled": _uncalled,
    "value": lambda place: place.first(_is_value),
    "with_a_store": _with_a_store,
}
"""What a brace of a clause holds, by its name; nothing where it is not known."""
