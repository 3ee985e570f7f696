"""Names for what types cannot say: what a function takes or returns where anything may stand."""

import re
from collections.abc import Callable, Hashable
from typing import Any, Protocol

Function = Callable[..., Any]
MOST_SHOWN = 60
"""Characters of a value that stands in a sentence."""


class Kernel(Hashable, Protocol):
    """A function under @triton.jit, to be compiled or interpreted, tuned, or with heuristics."""

    __name__: str
    fn: Any
    """What it was made of: a Python function, or the kernel that is tuned."""
    params: list[Any]
    """Triton's own descriptions of its parameters."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]: ...


AnyValue = Any
"""What a launch is given or a kernel computes: a tensor, a number, a text, a tuple, a constant."""

AnyValues = dict[str, AnyValue]
"""name of a parameter, an option or a variable -> its value"""


def kind_of(value: AnyValue) -> str:
    """A value's type with its article, as a sentence names it: "an int"."""
    return with_article(type(value).__name__)


def shown(value: AnyValue) -> str:
    """A value as a sentence says what it is: a number or a short text itself, else its type."""
    is_simple = value is None or isinstance(value, (bool, int, float, str))
    return repr(value) if is_simple and len(repr(value)) <= MOST_SHOWN else kind_of(value)


def with_article(word: str) -> str:
    """A word or a number after its article: "an int", "an 8-way", "a str"."""
    has_an = re.match(r"[aeiou]|8|1[18]\b", word, re.IGNORECASE)
    return f"{'an' if has_an else 'a'} {word}"
