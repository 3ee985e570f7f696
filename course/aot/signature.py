"""The text of a signature, as "*fp16:16, fp32, i32:16, i1, 1, 64": a type or a constant for each of a kernel's arguments.

It is the one of Triton's own tool (`triton.tools.compile`), and so is the hash that goes into names.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from course.errors import CourseError

from .scalars import POINTEES, SCALARS, Scalar, scalar_of

Constant = bool | int | float | None
PYTORCH_NAMES = {
    "float16": "fp16", "half": "fp16", "bfloat16": "bf16", "float32": "fp32", "float": "fp32", "float64": "fp64",
    "double": "fp64", "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int": "i32", "int64": "i64", "uint8": "u8",
}  # fmt: skip
LITERALS: dict[str, Constant] = {"True": True, "False": False, "None": None}
WRITABLE = (
    "a signature writes numbers, True, False and None: for another constant, such as a string or a "
    "type, export a kernel that calls this one with it."
)


@dataclass(frozen=True)
class Argument:
    """One of a kernel's arguments, as the signature has it."""

    name: str
    type: Scalar | None = None
    """Of a run-time argument; None for a constant."""
    hint: int | None = None
    """16: a promise that the value is divisible by 16. 1: a promise that it is 1, and compiled as such."""
    value: Constant = None
    """Of a constant; 1 under the hint 1."""

    @property
    def constant(self) -> bool:
        """Whether it is no argument of the C functions at all."""
        return self.type is None

    @property
    def passed(self) -> bool:
        """Whether the compiled kernel itself takes it."""
        return self.type is not None and self.hint != 1


@dataclass(frozen=True)
class Options:
    """What the compiler is told besides the signature. Prints in words."""

    num_warps: int
    num_stages: int
    maxnreg: int | None = None
    """The most registers per thread; None leaves that to the compiler."""
    enable_fp_fusion: bool | None = None
    """Whether a product and a sum may become one instruction, rounded once; None is Triton's own default."""

    @property
    def given(self) -> dict[str, Any]:
        """By name what is not left to Triton."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def words(self) -> str:
        """As "warps4xstages3": the words of Triton's own tool, with the options that it does not have behind them."""
        more = {
            name: value
            for name, value in self.given.items()
            if name not in ("num_warps", "num_stages")
        }
        return f"warps{self.num_warps}xstages{self.num_stages}" + "".join(
            f"x{name}{value}" for name, value in more.items()
        )

    def __str__(self) -> str:
        words = [counted(self.num_warps, "warp"), counted(self.num_stages, "stage")]
        if self.maxnreg is not None:
            words.append(f"at most {counted(self.maxnreg, 'register')} per thread")
        if self.enable_fp_fusion is not None:
            words.append(f"{'with' if self.enable_fp_fusion else 'without'} FP fusion")
        return ", ".join(words)


@dataclass(frozen=True)
class Signature:
    """A text's parts, not yet bound to a kernel. Prints as the text."""

    parts: tuple[str, ...]
    arguments: tuple[Argument, ...]
    """Without names."""

    def bind(
        self,
        names: Sequence[str],
        kernel: str,
        defaults: Mapping[str, Constant] = MappingProxyType({}),
    ) -> tuple[Argument, ...]:
        """The arguments with the names of a kernel's; the last ones may be left to their defaults.

        Raises CourseError where their numbers differ.
        """
        left = names[len(self.arguments) :]
        if len(names) < len(self.arguments) or any(name not in defaults for name in left):
            raise CourseError(
                f"The signature has {counted(len(self.arguments), 'part')}, and {kernel} takes "
                f"{counted(len(names), 'argument')}: {', '.join(names)}."
            )
        given = [
            Argument(name, each.type, each.hint, each.value)
            for name, each in zip(names, self.arguments, strict=False)
        ]
        return tuple(given + [Argument(name, value=defaults[name]) for name in left])

    def hash(self, options: Options) -> str:
        """Eight hexadecimal digits: the ones that Triton's own tool puts into names."""
        return hashlib.sha256(" ".join([*self.parts, options.words]).encode()).hexdigest()[:8]

    @property
    def suffix(self) -> str:
        """The arguments with hints, as "0d1d3c": c for 1 and d for 16."""
        letters = {1: "c", 16: "d"}
        return "".join(
            f"{i}{letters[each.hint]}" for i, each in enumerate(self.arguments) if each.hint
        )

    def __str__(self) -> str:
        return ", ".join(self.parts)


def parse_signature(text: str) -> Signature:
    """Raises CourseError naming the part that is neither a type nor a constant."""
    if "tensordesc" in text:
        raise CourseError(
            f"The signature {_short(text)} has a tensor descriptor, which export cannot pass on: give the kernel a pointer "
            "and use tl.load."
        )
    parts = tuple(part.strip() for part in text.split(","))
    return Signature(parts, tuple(_part(part, place) for place, part in enumerate(parts, start=1)))


def _part(text: str, place: int) -> Argument:
    where = f"Part {place} of the signature, {_short(text)},"
    if not text:
        raise CourseError(
            f"Part {place} of the signature is empty: write a type such as i32, or a constant."
        )
    name, colon, hint = (each.strip() for each in text.partition(":"))
    scalar = scalar_of(name)
    if scalar is None:
        if not colon and _is_constant(text):
            return Argument("", value=_constant(text))
        bare = name.lstrip("*k")
        if bare in PYTORCH_NAMES:
            raise CourseError(
                f"{where} has PyTorch's name of a type: write {name.removesuffix(bare)}{PYTORCH_NAMES[bare]}."
            )
        types = f"{', '.join(SCALARS)}, and pointers * to these and {', '.join(p for p in POINTEES if p not in SCALARS)}"
        raise CourseError(
            f"{where} is neither a type nor a number: the types are {types}; {WRITABLE}"
        )
    if not colon:
        return Argument("", scalar)
    if hint not in ("1", "16"):
        raise CourseError(
            f"{where} has the hint {_short(hint)}: a hint is :16, divisible by 16, or :1, equal to 1; a constant has none."
        )
    if scalar.float or scalar.boolean:
        raise CourseError(
            f"{where} has a hint, and only pointers and integers may: write {name}, or a constant."
        )
    if hint == "1" and scalar.pointer:
        raise CourseError(f"{where} says that a pointer is 1: a pointer's hint is :16.")
    return Argument("", scalar, int(hint), 1 if hint == "1" else None)


def _is_constant(text: str) -> bool:
    try:
        _constant(text)
    except ValueError:
        return False
    return True


def _constant(text: str) -> Constant:
    """The constant that a text writes. Raises ValueError where it writes none."""
    if text in LITERALS:
        return LITERALS[text]
    if not text.isascii():
        raise ValueError  # Python reads the digits of any alphabet
    try:
        value = int(text)
    except ValueError:
        return float(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError  # no integer in a kernel is larger
    return value


def counted(number: int, what: str) -> str:
    """A number of things, as "1 part" or "2 parts"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _short(text: str) -> str:
    """A text of the user's in quotes, on one line and not longer than a line."""
    return repr(text if len(text) <= 60 else f"{text[:57]}…")
