"""A hash of a source file's code, by which a recorded result knows that it was measured on that code."""

import ast
import hashlib
import io
import tokenize
from pathlib import Path


def code_hash(path: Path) -> str:
    """The first 16 hex digits of the SHA-256 of the file's code: comments, docstrings and blank lines do not count."""
    return hashlib.sha256(_code_only(path.read_text()).encode()).hexdigest()[:16]


def _code_only(text: str) -> str:
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            for row in range(docstring.lineno - 1, docstring.end_lineno or docstring.lineno):
                lines[row] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())
