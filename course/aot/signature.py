"""The text of a signature, as "*fp16:16, fp32, i32:16, i1, 1, 64": a type or a constant for each of
a kernel's arguments.

It is the text that Triton's own tool takes (`triton.tools.compile`), and so is the hash in names.
"""

import contextlib
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import triton

from course.errors import CourseError
from course.lowering.type_texts import DTYPES

from .abi import POINTEES, SCALARS, Scalar, scalar_of
from .options import Options, counted

Constant = bool | int | float | str | None
"""A constant's value; a string as "'relu'", in quotes, a type as "tl.fp16", and a tuple of these as
"(2, 'relu')"."""
PYTORCH_NAMES = {str(dtype).removeprefix("torch."): name for name, dtype in DTYPES.items()}
PYTORCH_NAMES |= {"half": "fp16", "float": "fp32", "double": "fp64", "int": "i32"}
"""PyTorch's name of a type -> Triton's."""
TYPES = {
    str(each) for each in vars(triton.language).values() if type(each) is triton.language.dtype
}
"""What a type that is a constant is called: "fp16", "int32"."""
LITERALS: dict[str, Constant] = {"True": True, "False": False, "None": None}
WRITABLE = (
    "a constant is a number, True, False, None, a word in quotes, a type as tl.fp16 or tl.int32, "
    "or a tuple of these: for any other, such as a tuple of pointers, export a kernel that calls "
    "this one."
)


@dataclass(frozen=True)
class Argument:
    """One of a kernel's arguments, as the signature has it."""

    name: str
    type: str | None = None
    """Triton's name of a run-time argument's type; None for a constant."""
    hint: int | None = None
    """16: a promise that the value is divisible by 16. 1: a promise that it is 1, compiled in."""
    value: Constant = None
    """A constant's value; 1 under the hint 1."""

    @property
    def scalar(self) -> Scalar:
        """The type of an argument that has one."""
        scalar = scalar_of(self.type or "")
        assert scalar is not None, self
        return scalar

    @property
    def constant(self) -> bool:
        """Whether the C functions do not have it at all."""
        return self.type is None

    @property
    def passed(self) -> bool:
        """Whether the compiled kernel itself takes it."""
        return self.type is not None and self.hint != 1


@dataclass(frozen=True)
class Signature:
    """A text's parts, not yet bound to a kernel. Prints as the text."""

    parts: tuple[str, ...]
    arguments: tuple[Argument, ...]
    """Their names are empty."""

    def bind(
        self,
        names: Sequence[str],
        kernel: str,
        defaults: Mapping[str, Constant] = MappingProxyType({}),
    ) -> tuple[Argument, ...]:
        """The arguments under a kernel's names; the last ones may be left to their defaults.

        Raises CourseError if there are more or fewer of them than the kernel takes.
        """
        left = names[len(self.arguments) :]
        if len(names) < len(self.arguments) or any(name not in defaults for name in left):
            raise CourseError(
                f"The signature has {counted(len(self.arguments), 'part')}, and {kernel} takes "
                f"{counted(len(names), 'argument')}: {', '.join(names)}.",
                kind="parts",
            )
        written = zip(self.arguments, names, strict=False)
        return (
            *(replace(argument, name=name) for argument, name in written),
            *(Argument(name, value=defaults[name]) for name in left),
        )

    def hash(self, options: Options, more: Sequence[str] = ()) -> str:
        """The eight hexadecimal digits that Triton's own tool puts into names.

        more: what tells variants apart beside the signature, which Triton's tool does not know.
        """
        words = " ".join([*self.parts, options.words, *more])
        return hashlib.sha256(words.encode()).hexdigest()[:8]

    @property
    def suffix(self) -> str:
        """The arguments with hints, as "0d1d3c": d for 16 and c for 1."""
        letters = {1: "c", 16: "d"}
        hints = [argument.hint for argument in self.arguments]
        return "".join(f"{place}{letters[hint]}" for place, hint in enumerate(hints) if hint)

    def __str__(self) -> str:
        return ", ".join(self.parts)


def parse_signature(text: str) -> Signature:
    """Raises CourseError naming the part that is neither a type nor a constant."""
    if "tensordesc" in text:
        raise CourseError(
            f"The signature {_short(text)} has a tensor descriptor, which export cannot pass on: "
            "give the kernel a pointer and use tl.load."
        )
    if text.count("(") != text.count(")"):
        raise CourseError(f"The signature {_short(text)} has a bracket without its other half.")
    parts = tuple(part.strip() for part in re.split(r",(?![^()]*\))", text) if text.strip())
    return Signature(parts, tuple(_part(part, place) for place, part in enumerate(parts, start=1)))


def _part(text: str, place: int) -> Argument:
    part = f"Part {place} of the signature"
    if not text:
        raise CourseError(f"{part} is empty: write a type such as i32, or a constant.")
    part = f"{part}, {_short(text)},"
    name, colon, hint = (word.strip() for word in text.partition(":"))
    scalar = scalar_of(name)
    if scalar is None:
        try:
            return Argument("", value=_constant(text))
        except ValueError:
            raise CourseError(f"{part} {_unknown(name)}", kind="unknown type") from None
    if not colon:
        return Argument("", name)
    if hint not in ("1", "16"):
        raise CourseError(
            f"{part} has the hint {_short(hint)}: a hint is :16, divisible by 16, or :1, equal to "
            "1; a constant has none."
        )
    if scalar.floating or scalar.boolean:
        raise CourseError(
            f"{part} has a hint, and only pointers and integers may: write {name}, or a constant."
        )
    if hint == "1" and scalar.pointer:
        raise CourseError(f"{part} says that a pointer is 1: a pointer's hint is :16.")
    return Argument("", name, int(hint), 1 if hint == "1" else None)


def _unknown(name: str) -> str:
    """The sentence about a part that is neither a type nor a constant, without its subject."""
    bare = name.lstrip("*k")
    if bare in PYTORCH_NAMES:
        wanted = name.removesuffix(bare) + PYTORCH_NAMES[bare]
        as_type = wanted.replace("i", "int").replace("u", "uint")
        constant = f", or tl.{as_type} if the type itself is a constant" if bare == name else ""
        return f"has PyTorch's name of a type: write {wanted}{constant}."
    others = ", ".join(pointee for pointee in POINTEES if pointee not in SCALARS)
    types = f"{', '.join(SCALARS)}, and pointers * to these but u1, and to {others}"
    return f"is neither a type nor a number: the types are {types}; {WRITABLE}"


def _constant(text: str) -> Constant:
    """The constant that a text writes. Raises ValueError if it writes none."""
    if text in LITERALS:
        return LITERALS[text]
    if word := WORD.fullmatch(text):
        return f"'{word[2]}'"
    if items := _items(text):
        return _tuple_text(map(_constant, items)) if "," in text else _constant(items[0])
    of_triton = getattr(triton.language, text.removeprefix("tl."), text.removeprefix("tl."))
    if text.startswith("tl.") and (name := str(of_triton)) in TYPES:
        return f"tl.{name}"
    if not text.isascii():
        raise ValueError("Python would read the digits of any alphabet")
    try:
        value = int(text, 16 if "x" in text else 10)
    except ValueError:
        return float(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError("no integer in a kernel is larger")
    return value


WORD = re.compile(r"""(['"])([\w.+-]{0,60})\1""", re.ASCII)
"""A string constant: the C names it in a comment."""


def value_of(constant: Constant) -> Any:
    """What a kernel is given for a constant."""
    if not isinstance(constant, str):
        return constant
    if WORD.fullmatch(constant):
        return constant[1:-1]
    if items := _items(constant):
        return tuple(value_of(_constant(item)) for item in items)
    return triton.language.dtype(constant.removeprefix("tl."))


def constants_of(values: Mapping[str, Any]) -> dict[str, Constant]:
    """Those of a kernel's constants that a signature can write."""
    written = {}
    for name, value in values.items():
        with contextlib.suppress(ValueError):
            written[name] = _constant_of(value)
    return written


def _items(text: str) -> list[str]:
    """The items of a tuple, which has one pair of brackets; nothing if the text is no tuple."""
    within = re.fullmatch(r"\(([^()]+)\)", text)
    return [item.strip() for item in within[1].removesuffix(",").split(",")] if within else []


def _tuple_text(constants: Iterable[Constant]) -> str:
    items = [str(each) for each in constants]
    return f"({', '.join(items)}{',' * (len(items) == 1)})"


def _constant_of(value: Any) -> Constant:
    if isinstance(value, tuple):
        return _constant(_tuple_text(map(_constant_of, value)))
    if isinstance(value, (str, triton.language.dtype)):
        return _constant(f"tl.{value}" if isinstance(value, triton.language.dtype) else repr(value))
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise ValueError("a signature writes no such constant")


def _short(text: str) -> str:
    """The user's text in quotes, on one line and not longer than a line."""
    return repr(text if len(text) <= 60 else f"{text[:57]}…")
