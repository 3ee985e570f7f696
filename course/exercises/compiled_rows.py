"""What an exercise asks of how a compiled kernel finds its rows."""

import re

from .result import Judged, wrong

ARGUMENT = re.compile(r'(%\w+): ([^{}()\s,]+)(?: (\{[^}]*\}))? loc\("(\w+)"')
"""An argument of a kernel in TTIR: its value, its type, what the compiler is told, its name."""

OPERATION = re.compile(r"^\s*(%\w+) = \"?([\w.]+)\"? (.*?) loc\(", re.MULTILINE)
"""An operation in TTIR: the value that it gives, its name, its operands with their types."""

KEPT = "name it in do_not_specialize"


def any_number_of_rows(stages: dict[str, str]) -> Judged | None:
    """What is wrong with a kernel for matrices of any number of rows; None if nothing is.

    The product of a row's number and the stride must have 64 bits, and the compiler may be told
    nothing of n_rows, though it must be told that 16 divides n_cols.
    """
    arguments = {name: told or "" for _, _, told, name in ARGUMENT.findall(stages["ttir"])}
    if not arguments:  # a compiler that writes them otherwise
        return None
    if "n_rows" not in arguments:
        text = f"The number of rows is a constant in the compiled kernel: {KEPT}."
        return wrong("constant rows", text)
    if "divisibility" in arguments["n_rows"]:
        return wrong(
            "specialized rows",
            "The compiler is told that 16 divides n_rows, so another number of rows is compiled "
            f"anew: {KEPT}.",
        )
    if "divisibility" not in arguments.get("n_cols", "divisibility"):
        return wrong(
            "narrow loads",
            "The compiler is not told that 16 divides n_cols, so the loads are narrow: keep only "
            "n_rows from it.",
        )
    if _row_times_stride_in_32_bits(stages["ttir"]):
        return wrong(
            "32 bits",
            "The product of the row and stride_xm has 32 bits, which are too few from 2^31 on: "
            "convert one of the two with .to(tl.int64) before you multiply.",
        )
    return None


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
