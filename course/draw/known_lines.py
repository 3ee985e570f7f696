"""A kernel's text with what the reader has written already in gray."""

import ast
import html
import inspect
import textwrap
from collections.abc import Iterator

from course.display.widget import CODE_STYLE
from course.errors import CourseError
from course.triton_internals.jit_functions import plain_function
from course.type_names import Kernel, kind_of

PALE = "opacity:0.4"


class Reading:
    """The lines of a kernel, each with whether it is known; it prints and shows itself."""

    def __init__(self, lines: list[tuple[str, bool]], statements: int, known: int) -> None:
        self.lines, self.statements, self.known = lines, statements, known

    @property
    def _head(self) -> str:
        return f"{self.known} of {self.statements} statements are yours, in gray:"

    def __str__(self) -> str:
        rows = [f"{' ' if known else '>'} {line}".rstrip() for line, known in self.lines]
        return "\n".join([self._head.replace("in gray", "and > marks the rest"), *rows])

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        rows = [
            f'<span style="{PALE}">{html.escape(line)}</span>' if known else html.escape(line)
            for line, known in self.lines
        ]
        text = "\n".join(rows)
        code = f'<code style="white-space:pre">{text}</code>'
        page = f'<p>{self._head}</p>\n<pre style="{CODE_STYLE}">{code}</pre>'
        return {"text/html": page, "text/plain": str(self)}


def reading(kernel: Kernel, *written: Kernel) -> Reading:
    """A kernel to be read in one go: in gray each statement that one of `written` has word for
    word, wherever it stands there. Comments and the kernel's docstring are left out of the
    comparison, and the docstring out of the text too."""
    own = {
        text
        for function in written
        for node, whole in _statements(_tree(function)[1])
        for text in (whole, *_one_by_one(node))
    }
    source, definition = _tree(kernel)
    docstring = definition.body[0] if ast.get_docstring(definition) else None
    hidden = set(range(docstring.lineno, (docstring.end_lineno or 0) + 1)) if docstring else set()
    gray: set[int] = set()
    found = list(_statements(definition))
    for node, text in found:
        if text in own:
            gray |= set(range(node.lineno, _last_line(node) + 1))
    numbered = list(enumerate(source.split("\n"), start=1))
    for number, line in reversed(numbered):  # a comment, a blank line, an else: as what follows
        if number + 1 in gray and (not line.strip() or line.strip().startswith(("#", "else:"))):
            gray.add(number)
    lines = [(line, number in gray) for number, line in numbered if number not in hidden]
    return Reading(lines, len(found), sum(text in own for _, text in found))


def _tree(kernel: Kernel) -> tuple[str, ast.FunctionDef]:
    function = plain_function(kernel)
    if function is None:
        raise CourseError(f"draw.reading takes kernels; this is {kind_of(kernel)}.")
    source = textwrap.dedent(inspect.getsource(function)).rstrip()
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.FunctionDef)
    return source, definition


def _statements(definition: ast.FunctionDef) -> Iterator[tuple[ast.stmt, str]]:
    """The statements of a function but its docstring; of a compound one the head alone."""
    for node in ast.walk(definition):
        if node is definition or not isinstance(node, ast.stmt) or _is_text(node):
            continue
        whole = ast.unparse(node)
        yield node, whole.split("\n")[0] if hasattr(node, "body") else whole


def _one_by_one(node: ast.stmt) -> Iterator[str]:
    """What `a, b = x, y` is in two statements."""
    if not isinstance(node, ast.Assign):
        return
    names, values = node.targets[0], node.value
    if isinstance(names, ast.Tuple) and isinstance(values, ast.Tuple):
        for name, value in zip(names.elts, values.elts, strict=False):
            yield ast.unparse(ast.Assign([name], value, lineno=0))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _last_line(node: ast.stmt) -> int:
    """The last line of a statement, and of a compound one of its head."""
    body: list[ast.stmt] = getattr(node, "body", [])
    if not body:
        return node.end_lineno or node.lineno
    return max(node.lineno, body[0].lineno - 1)
