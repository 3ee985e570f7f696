"""A function and all it uses, as the text of a module that runs in another process.

It takes along, by name: kernels and jitted helpers, plain functions, imported modules and what was imported from
them, and constants. What lives only in this process (a tensor, an open file, a closure) is named in an error.
"""

import ast
import dis
import inspect
import sys
import textwrap
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

from course.errors import CourseError

from .private import plain_function

CONSTANTS = (bool, int, float, complex, str, bytes, type(None))


def module_source(function: Callable[..., Any]) -> str:
    """The text of a module that defines `function` and everything it uses from its own module or notebook.

    Raises CourseError naming what cannot be taken along.
    """
    imports: dict[str, None] = {}  # ordered, each once
    definitions: dict[str, str] = {}
    _collect(function.__name__, function, imports, definitions)
    # course goes first: importing it picks the mode, which must come before Triton is imported.
    first = sorted(imports, key=lambda line: "course" not in line.split()[1].split(".")[0])
    return "\n".join(["import course", *first]) + "\n\n\n" + "\n\n\n".join(definitions.values()) + "\n"


def _collect(name: str, value: Any, imports: dict[str, None], definitions: dict[str, str]) -> None:
    if name in definitions:
        return
    function = plain_function(value) or (value if inspect.isfunction(value) else None)
    if isinstance(value, ModuleType):
        imports[f"import {value.__name__} as {name}"] = None
    elif isinstance(value, CONSTANTS):
        definitions[name] = f"{name} = {value!r}"
    elif _importable(value):
        imports[f"from {value.__module__} import {value.__name__} as {name}"] = None
    elif function is not None:
        _refuse_closure(function)
        definitions[name] = ""  # holds its place against a cycle
        text = textwrap.dedent(_text(function))
        for used in sorted(_globals_in_code(function.__code__) | _names_in_head(text)):
            if used in function.__globals__:
                _collect(used, function.__globals__[used], imports, definitions)
        del definitions[name]
        definitions[name] = text
    else:
        raise CourseError(
            f"{name} is a {type(value).__name__}, which cannot go along into another process: "
            f"make it inside the function that uses it."
        )


def _importable(value: Any) -> bool:
    """Whether another process can import it: it stands in a module, and not in a notebook or script."""
    home, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    return home not in (None, "__main__") and name is not None and getattr(sys.modules.get(home), name, None) is value


def _globals_in_code(code: CodeType) -> set[str]:
    names = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(_globals_in_code(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _names_in_head(text: str) -> set[str]:
    """Names in decorators, annotations and defaults, which are evaluated outside the function's own code."""
    definition = ast.parse(text).body[0]
    assert isinstance(definition, ast.FunctionDef)
    heads = [*definition.decorator_list, definition.args, *([definition.returns] if definition.returns else [])]
    return {node.id for head in heads for node in ast.walk(head) if isinstance(node, ast.Name)}


def _refuse_closure(function: Callable[..., Any]) -> None:
    if function.__closure__:
        names = ", ".join(function.__code__.co_freevars)
        raise CourseError(
            f"{function.__name__} uses {names} from the function around it, which cannot go along into another "
            "process: pass it as an argument, or define it outside."
        )


def _text(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function).rstrip()
    except (OSError, TypeError) as error:
        raise CourseError(
            f"The source of {function.__name__} cannot be read (it was made by exec, perhaps): define it in a cell or a file."
        ) from error
