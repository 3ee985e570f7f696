"""What single exercises ask of a compiled kernel: its products in 16 bits, any number of rows."""

import re
from collections.abc import Iterator

import torch

from course.exercises.result import Judged, wrong

ARGUMENT = re.compile(r'(%[\w.]+): ([^{}()\s,]+)(?: (\{[^}]*\}))? loc\("([\w.]+)"')
"""An argument of a kernel in TTIR: its value, its type, what the compiler is told, its name."""

OPERATION = re.compile(r"^\s*(%\w+) = \"?([\w.]+)\"? (.*?) loc\(", re.MULTILINE)
"""An operation in TTIR: the value that it gives, its name, its operands with their types."""

CONVERSIONS = {"arith.sitofp", "arith.uitofp", "arith.trunci"}
"""Operations in TTIR that may lose digits of a whole number."""

NO_ROWS = {"tt.load", "arith.cmpi", "arith.minsi", "arith.minui", "arith.remsi", "arith.subi"}
"""Operations in TTIR that make of a row's number one that may be small: how many rows are left, a
place within the block."""

FEW_DIGITS = {
    "f32": ("float32", 24), "f16": ("float16", 11), "bf16": ("bfloat16", 8),
    "i16": ("int16", 15), "i8": ("int8", 7),
}  # fmt: skip
"""A type in TTIR -> its name in the language, and n: up to 2^n it holds every whole number"""

KEPT = "name it in do_not_specialize"


def product_in_float32(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of float16 in float32; of float64, in which it is the reference, in float64."""
    wide = torch.promote_types(a.dtype, torch.float32)
    return a.to(wide) @ b.to(wide)


def dots_in_16_bits(stages: dict[str, str]) -> Judged | None:
    """What is wrong with a kernel's products of float16 blocks; None if nothing is."""
    # Not the TTIR's word for whether there is one: there the compiler has made a dot of a sum of
    # products, not for tensor cores.
    if "tt.dot" not in stages["source"]:
        return wrong("no dot", "It multiplies without tl.dot, and so without tensor cores.")
    if re.search(r"tt\.dot .*: tensor<\w+xf32\b[^>]*> \*", stages["ttir"]):
        return wrong(
            "float32 operands",
            "It gives tl.dot operands in float32, which tensor cores multiply at half the speed: "
            "leave them in float16, the product is added up in float32 all the same.",
        )
    return None


def sums_in_float32(stages: dict[str, str]) -> Judged | None:
    """What is wrong with products of float16 blocks that must be added up in float32."""
    if re.search(r"tt\.dot .*-> tensor<\w+xf16>", stages["ttir"]):
        return wrong("float16 sums", "It adds up a dot in float16: leave out out_dtype.")
    return dots_in_16_bits(stages)


def strides_in_64_bits(stages: dict[str, str]) -> Judged | None:
    """What is wrong with a kernel whose indices must have 64 bits where they meet a stride."""
    arguments = [(value, name) for value, _, _, name in ARGUMENT.findall(stages["ttir"])]
    strides = {value: name for value, name in arguments if name.startswith("stride")}
    if name := _multiplied_in_32_bits(stages["ttir"], strides):
        place = re.sub(r"\.(\d+)", r"[\1]", name)  # of a tuple
        text = f"A product with {place} has 32 bits, which are too few from 2^31 on"
        return wrong("32 bits", f"{text}: convert the index with .to(tl.int64) before it.")
    return None


def places_in_64_bits(stages: dict[str, str]) -> Judged | None:
    """What is wrong with a kernel that loads places of type int32, and multiplies them by a
    stride."""
    operations = OPERATION.findall(stages["ttir"])
    loads = {value: name for value, name, rest in operations if rest.endswith("!tt.ptr<i32>")}
    if _multiplied_in_32_bits(stages["ttir"], loads):
        text = "A product with a number that it loads has 32 bits, which are too few from 2^31 on"
        return wrong("32 bits", f"{text}: convert that number with .to(tl.int64) before it.")
    return None


def _multiplied_in_32_bits(ttir: str, given: dict[str, str]) -> str:
    """The name of one of these values that is multiplied as an int32; empty if none is.

    given: value -> name
    """
    named = dict(given)
    for result, operation, rest in OPERATION.findall(ttir):
        name = next((named[each] for each in re.findall(r"%[\w.]+", rest) if each in named), "")
        if not name or not re.search(r"(?:\b|x)i32>?$", rest):
            continue  # another value, or one of 64 bits
        if operation == "arith.muli":
            return name
        named[result] = name
    return ""


def any_number_of_rows(stages: dict[str, str]) -> Judged | None:
    """What is wrong with a kernel for matrices of any number of rows; None if nothing is.

    The product of a row's number and the stride must have 64 bits, the number may not go through a
    type that holds too few, and the compiler may be told nothing of n_rows, though it must be told
    that 16 divides n_cols.
    """
    return next((wrong(kind, text) for kind, text in _row_problems(stages["ttir"])), None)


def _row_problems(ttir: str) -> Iterator[tuple[str, str]]:
    """The kind of each problem, and a sentence."""
    arguments = {name: told or "" for _, _, told, name in ARGUMENT.findall(ttir)}
    if not arguments:  # a compiler that writes them otherwise
        return
    if "n_rows" not in arguments:
        text = f"The number of rows is a constant in the compiled kernel: {KEPT}."
        yield "constant rows", text
    elif "divisibility" in arguments["n_rows"]:
        told = "The compiler is told that 16 divides n_rows"
        yield "specialized rows", f"{told}, so another number of rows is compiled anew: {KEPT}."
    if "divisibility" not in arguments.get("n_cols", "divisibility"):
        told = "The compiler is not told that 16 divides n_cols"
        yield "narrow loads", f"{told}, so the loads are narrow: keep only n_rows from it."
    if _row_times_stride_in_32_bits(ttir):
        bits = "The product of the row and stride_xm has 32 bits, which are too few from 2^31 on"
        yield "32 bits", f"{bits}: convert one of the two with .to(tl.int64) before you multiply."
    if narrow := _row_in_few_digits(ttir):
        name, digits = FEW_DIGITS[narrow]
        text = f"The row's number is converted to {name}, which holds whole numbers up to "
        instead = "and a matrix of more than 2^31 elements may have more rows: convert it to int64"
        yield "narrow rows", f"{text}2^{digits} only, {instead}."


def _row_in_few_digits(ttir: str) -> str:
    """The type, as "f32", that a number made of the program's is converted to and that may round
    it or cut it off; empty if there is none."""
    rows: set[str] = set()
    for result, name, rest in OPERATION.findall(ttir):
        if name == "tt.get_program_id":
            rows.add(result)
        if name in NO_ROWS or not rows & set(re.findall(r"%\w+", rest)):
            continue
        narrow = re.search(r" to (?:tensor<[\dx]+x)?(\w+)>?$", rest)
        if name in CONVERSIONS and narrow and narrow[1] in FEW_DIGITS:
            return narrow[1]
        rows.add(result)
    return ""


def _row_times_stride_in_32_bits(ttir: str) -> bool:
    """Whether a number that comes from the program's is multiplied by the stride as an int32."""
    strides = {value for value, _, _, name in ARGUMENT.findall(ttir) if name == "stride_xm"}
    rows: set[str] = set()
    for result, name, rest in OPERATION.findall(ttir):
        operands = set(re.findall(r"%\w+", rest))
        if name == "tt.get_program_id":
            rows.add(result)
        if not re.search(r"(?:\b|x)i32>?$", rest):
            continue  # of 64 bits, or no number
        if name == "arith.muli" and operands & rows and operands & strides:
            return True
        if operands & rows:
            rows.add(result)
        if operands & strides:
            strides.add(result)
    return False
