"""A hash of the code of functions, which says whether a recorded result was measured on that code.

The hash covers what the functions do and not how they are written down: their definitions and those
that they use, wherever in `kernels` these stand. Moving a definition to another file, renaming it
or one of its local variables, a comment, a docstring, an annotation and the text of an error change
nothing. Parameters keep their names, since callers and `do_not_specialize` refer to them.
"""

import ast
import functools
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "kernels"
UNHASHED = f"{PACKAGE}.checks"
"""Its functions raise where an input does not fit; they compute nothing."""
Scopes = tuple[dict[str, int | None], ...]
"""Name -> its number, for each scope around, the innermost last; None keeps a parameter's name."""
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def code_hash(functions: Iterable[str]) -> str:
    """16 hex digits of the SHA-256 of the code of functions at the top of their modules.

    functions: by name, as "kernels.softmax.softmax". Their modules are read and not imported, so
    this takes milliseconds.

    Raises LookupError, OSError or SyntaxError where there is no such function to be read.
    """
    definitions = _Definitions()
    for function in functions:
        module, _, name = function.rpartition(".")
        if definitions.number(_module(module), name) is None:
            raise LookupError(f"{module} does not define {name}")
    return hashlib.sha256("\n".join(definitions.texts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class _Module:
    """What the top level of a module binds."""

    statements: dict[str, ast.stmt]
    """Name -> the statement that defines it."""
    imported: dict[str, tuple[str, str]]
    """Name -> (module, name there), of what comes from PACKAGE."""


@functools.cache
def _module(name: str) -> _Module:
    statements: dict[str, ast.stmt] = {}
    imported: dict[str, tuple[str, str]] = {}
    for statement in _top_level(ast.parse(_file(name).read_text()).body):
        if isinstance(statement, ast.ImportFrom) and statement.module:
            if statement.module.split(".")[0] == PACKAGE and statement.module != UNHASHED:
                for alias in statement.names:
                    imported[alias.asname or alias.name] = (statement.module, alias.name)
        else:
            statements |= dict.fromkeys(_bound_by(statement), statement)
    return _Module(statements, imported)


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module. Of a `try`, those that it tries: they are what a GPU has run."""
    for statement in body:
        if isinstance(statement, ast.Try):
            yield from _top_level(statement.body)
        else:
            yield statement


def _file(module: str) -> Path:
    """The file of a module, without importing the packages around it."""
    package, *inside = module.split(".")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise LookupError(f"there is no package {package}")
    path = Path(spec.submodule_search_locations[0], *inside)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _bound_by(node: ast.AST) -> list[str]:
    """The names that a node binds in its own scope."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    if isinstance(node, ast.Lambda | ast.Import | ast.ImportFrom):
        return []
    if isinstance(node, Comprehension):  # a scope of its own, which only := reaches out of
        return [each.target.id for each in ast.walk(node) if isinstance(each, ast.NamedExpr)]
    return [name for child in ast.iter_child_nodes(node) for name in _bound_by(child)]


class _Definitions:
    """Definitions numbered in the order in which they are first used, with their texts."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[int, int] = {}

    def number(self, module: _Module, name: str) -> int | None:
        """The number of what `name` means in a module; None where PACKAGE does not define it."""
        if name in module.imported:
            home, original = module.imported[name]
            return self.number(_module(home), original)
        statement = module.statements.get(name)
        if statement is None:
            return None
        if id(statement) not in self._numbers:
            number = self._numbers[id(statement)] = len(self.texts)
            self.texts.append("")  # a definition may use itself
            self.texts[number] = _Text(self, module).of(statement)
        return self._numbers[id(statement)]


class _Text:
    """The text of one definition, with numbers for the names that may change."""

    def __init__(self, definitions: _Definitions, module: _Module, scopes: Scopes = ()) -> None:
        self._definitions, self._module, self._scopes = definitions, module, scopes

    def of(self, value: object) -> str:
        if isinstance(value, list):
            return "[" + ",".join(map(self.of, value)) + "]"
        if not isinstance(value, ast.AST):
            return repr(value)
        if isinstance(value, ast.Name):
            return self._name(value.id)
        if isinstance(value, ast.Raise):
            return "Raise"
        if isinstance(value, ast.FunctionDef):
            return self._function(value)
        if isinstance(value, Comprehension):
            return self._comprehension(value)
        if isinstance(value, ast.ClassDef):
            return self._fields(value, body=_without_docstrings(value.body), name=None)
        if isinstance(value, ast.arg):
            return value.arg + ":constexpr" * _is_constexpr(value.annotation)
        return self._fields(value)

    def _function(self, function: ast.FunctionDef) -> str:
        outside = self.of(function.decorator_list)
        body = _without_docstrings(function.body)
        arguments = function.args
        parameters = [node.arg for node in ast.walk(arguments) if isinstance(node, ast.arg)]
        bound = [name for statement in body for name in _bound_by(statement)]
        scope = _numbered(bound) | dict.fromkeys(parameters)
        text = _Text(self._definitions, self._module, (*self._scopes, scope))
        return f"{outside}def({text.of(arguments)}){text.of(body)}"

    def _comprehension(self, value: Comprehension) -> str:
        """Only the first iterable is computed outside the comprehension's scope."""
        first, *others = value.generators
        outside = self.of(first.iter)
        inside = ast.comprehension(first.target, ast.Constant(None), first.ifs, first.is_async)
        bound = [name for each in value.generators for name in _bound_by(each.target)]
        text = _Text(self._definitions, self._module, (*self._scopes, _numbered(bound)))
        return f"{outside} {text._fields(value, generators=[inside, *others])}"

    def _name(self, name: str) -> str:
        for depth, names in enumerate(reversed(self._scopes)):
            if name in names:
                number = names[name]
                return name if number is None else f"local {depth} {number}"
        definition = self._definitions.number(self._module, name)
        return name if definition is None else f"definition {definition}"

    def _fields(self, node: ast.AST, **instead: object) -> str:
        # By hand and not by ast.dump, whose text differs between versions of Python.
        fields = dict(ast.iter_fields(node)) | instead
        fields.pop("ctx", None)
        if isinstance(node, ast.AnnAssign) and not _is_constexpr(node.annotation):
            del fields["annotation"]
        texts = [
            f"{name}={self.of(value)}" for name, value in fields.items() if value not in (None, [])
        ]
        return f"{type(node).__name__}({','.join(texts)})"


def _numbered(names: Iterable[str]) -> dict[str, int | None]:
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def _is_constexpr(annotation: ast.expr | None) -> bool:
    return annotation is not None and "constexpr" in ast.unparse(annotation)


def _without_docstrings(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements without strings on their own, which document a function or an attribute."""
    values = (statement.value if isinstance(statement, ast.Expr) else None for statement in body)
    return [
        statement
        for statement, value in zip(body, values, strict=True)
        if not (isinstance(value, ast.Constant) and isinstance(value.value, str))
    ]
