"""The text of every stage in color: tokens of a few classes, line by line.

Pygments does the work; the lexers for MLIR and SASS, which it lacks, are here.
"""

from collections.abc import Callable
from functools import cache
from typing import ClassVar

from pygments.lexer import Lexer, RegexLexer, bygroups
from pygments.lexers import get_lexer_by_name
from pygments.token import (
    Comment,
    Generic,
    Keyword,
    Name,
    Number,
    Operator,
    String,
    Text,
    Token,
    _TokenType,
)

Line = list[tuple[str, str]]
"""A line as (class, text), in order. The classes stand in CLASSES, and in code.css."""

MLIR_KEYWORDS = (
    "module|func|loc|attributes|public|private|dense|true|false|unit|to|step|iter_args|else"
)


class MlirLexer(RegexLexer):
    """MLIR as Triton prints it."""

    name = "MLIR"
    tokens: ClassVar = {
        "root": [
            (r"//.*?$", Comment),
            (r'"[^"]*"', String),
            (r"%[\w#:.-]+", Name.Variable),
            (r"#[\w.]+", Name.Decorator),
            (r"![\w.]+", Keyword.Type),
            (r"@[\w.]+", Name.Function),
            (r"\^\w+", Name.Label),
            (r"\b(tensor|memref|vector|index|none|i\d+|f\d+|bf16|f8\w+|tf32)\b", Keyword.Type),
            (r"\b\d+(x\d+)*x(?=[!#a-z])", Number),
            (r"-?\b\d+(\.\d+)?(e[+-]?\d+)?\b", Number),
            (rf"\b({MLIR_KEYWORDS})\b", Keyword),
            (r"\b[a-z_]\w*\.[\w.]+", Name.Builtin),
            (r"[A-Za-z_]\w*", Text),
            (r"\s+", Text),
            (r".", Operator),
        ]
    }


class SassLexer(RegexLexer):
    """NVIDIA's machine code as nvdisasm prints it."""

    name = "SASS"
    tokens: ClassVar = {
        "root": [
            (r"//.*?$", Comment),
            (r"/\*.*?\*/", Comment),
            (r"^\[[-0-9]{6}:R.*?\]", Comment),
            (r"^\s*\.[\w.]+.*?$", Comment),
            (r"(@!?U?P[T\d]+)(\s+)", bygroups(Name.Label, Text)),
            (r"\bU?(R|P)(\d+|Z|T)\b(\.\w+)?", Name.Variable),
            (r"\bSR_[\w.]+|\bSRZ\b", Name.Constant),
            (r"-?\b0x[0-9a-fA-F]+|\b-?\d+(\.\d+)?\b", Number),
            (r"\b[A-Z][A-Z0-9_]+(\.[A-Z0-9_.]+)*", Name.Builtin),
            (r"\s+", Text),
            (r".", Operator),
        ]
    }


LEXERS: dict[str, Callable[[], Lexer]] = {
    "source": lambda: get_lexer_by_name("python", stripnl=False, ensurenl=False),
    "ttir": MlirLexer,
    "glir": MlirLexer,
    "ttgir": MlirLexer,
    "llir": lambda: get_lexer_by_name("llvm", stripnl=False, ensurenl=False),
    "ptx": lambda: get_lexer_by_name("ptx", stripnl=False, ensurenl=False),
    "sass": SassLexer,
    "amdgcn": lambda: get_lexer_by_name("gas", stripnl=False, ensurenl=False),
}

# A token belongs to the first class whose type holds it.
CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "c"), (String, "s"), (Number, "m"), (Keyword.Type, "t"), (Keyword, "k"),
    (Name.Variable, "v"), (Name.Decorator, "d"), (Name.Builtin, "o"), (Name.Function, "o"),
    (Name.Label, "d"), (Name.Constant, "m"), (Generic, ""), (Token, ""),
)  # fmt: skip


@cache
def _lexer(stage: str) -> Lexer:
    return LEXERS[stage]()


@cache
def _class(kind: _TokenType) -> str:
    return next(name for holds, name in CLASSES if kind in holds)


def lines(text: str, stage: str) -> list[Line]:
    """The text of a stage ("source" is Python) in color. Its lines, joined, are the text."""
    colored: list[Line] = [[]]
    for kind, piece in _lexer(stage).get_tokens(text):
        name = _class(kind)
        for number, part in enumerate(piece.split("\n")):
            if number:
                colored.append([])
            line = colored[-1]
            if part and line and line[-1][0] == name:
                line[-1] = (name, line[-1][1] + part)
            elif part:
                line.append((name, part))
    count = text.count("\n") + 1  # lexers may add or drop a line at the end
    return colored[:count] + [[] for _ in range(count - len(colored))]
