"""A function and all it uses, in a form that another process can define again.

It takes along, by name: kernels and jitted helpers, plain functions, imported modules and what was imported from
them, and constants. What lives only in this process (a tensor, an open file, a closure) is named in an error.
"""

import ast
import dis
import inspect
import linecache
import os
import sys
import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass
from types import CodeType, ModuleType
from typing import Any

import torch
import triton

import course
from course.errors import CourseError
from course.triton_internals.jit_functions import plain_function


@dataclass(frozen=True)
class Definition:
    """A function's text, and where it stands."""

    name: str
    """What the text's function is known by where it is used."""
    text: str
    file: str
    """Its file's path; for a notebook's cell a name that stays the same from session to session."""
    line: int
    """The line of `file` that the text begins in, from 1."""

    @property
    def place(self) -> str:
        """The file as a sentence names it."""
        return "your cell" if self.file.startswith("<cell") else os.path.basename(self.file)


@dataclass(frozen=True)
class Source:
    """A function as text, with everything it uses from its own module or notebook."""

    imports: tuple[str, ...]
    constants: tuple[str, ...]
    definitions: tuple[Definition, ...]
    """The function itself comes last."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Source":
        definitions = tuple(Definition(**each) for each in content["definitions"])
        return cls(tuple(content["imports"]), tuple(content["constants"]), definitions)

    def load(self) -> Callable[..., Any]:
        """Define it here, in a module of its own, and return the function. Its lines keep their numbers."""
        module = ModuleType("course_answer")
        sys.modules[module.__name__] = module  # where inspect and dataclasses look
        for line in (*self.imports, *self.constants):
            exec(line, vars(module))
        if (
            course.MODE.interpreting
        ):  # which cannot multiply a block by a constexpr in a helper, as the compiler can
            vars(module).setdefault(
                "_language", triton.language
            )  # which it asks every function for, and not all name it
            for name, value in vars(module).items():
                if isinstance(value, triton.language.constexpr):
                    setattr(module, name, value.value)
        for definition in self.definitions:
            _keep_lines(definition)
            text = "\n" * (definition.line - 1) + definition.text + "\n"
            own_name = _parsed(definition.text).name
            other = vars(module).get(
                own_name
            )  # two functions may have been defined under one name, one after the other
            exec(compile(text, definition.file, "exec"), vars(module))
            made = vars(module)[own_name]
            vars(module)[definition.name] = (
                made.__func__ if isinstance(made, staticmethod) else made
            )
            if other is not None and own_name != definition.name:
                vars(module)[own_name] = other
        return vars(module)[self.definitions[-1].name]


def _keep_lines(definition: Definition) -> None:
    """Have the text found by file and line, as Triton and tracebacks look for it."""
    lines = list(
        linecache.getlines(definition.file)
    )  # of a real file all of them: others of its functions may be imported
    new = [f"{line}\n" for line in definition.text.split("\n")]
    first, last = definition.line - 1, definition.line - 1 + len(new)
    if textwrap.dedent("".join(lines[first:last])).rstrip() == definition.text:
        return  # indented, where it stands in another function: so the lines below it do not become a part of it
    lines += ["\n"] * (last - len(lines))
    lines[first:last] = new
    linecache.cache[definition.file] = (sum(map(len, lines)), None, lines, definition.file)


def source_of(value: Any, kernels_as_text: bool = False) -> Source:
    """The source of a function, plain or under @triton.jit, with all it uses from its own module or notebook.

    kernels_as_text: of other modules too, so that their lines can be shown, and that each run defines them anew. By default
        they are imported there, and keep the names of their own module.
    Raises CourseError naming what cannot be taken along.
    """
    into = _Collected({}, {}, {}, {}, kernels_as_text)
    function = plain_function(value) or inspect.unwrap(value)
    into.meant[function.__name__] = value
    _collect_function(function.__name__, value, function, into)
    # course goes first: importing it picks the mode, which must come before Triton is imported.
    first = sorted(into.imports, key=lambda line: "course" not in line.split()[1].split(".")[0])
    definitions = tuple(
        definition for definition in into.definitions.values() if definition is not None
    )
    return Source(("import course", *first), tuple(into.constants.values()), definitions)


@dataclass
class _Collected:
    """What was found, in order, each once: import lines, and by name constants and functions; what each name means."""

    imports: dict[str, None]
    constants: dict[str, str]
    definitions: dict[str, Definition | None]
    meant: dict[str, Any]
    kernels_as_text: bool


def _collect(name: str, value: Any, into: _Collected, advice: str) -> None:
    """advice: what to do where the value cannot go along."""
    if not _same(into.meant.setdefault(name, value), value):
        raise CourseError(
            f"{name} means one thing in one module and another in the next: give one of them another name."
        )
    if name in into.definitions:
        return
    function = plain_function(value) or (
        inspect.unwrap(value) if inspect.isfunction(value) else None
    )
    if isinstance(value, ModuleType):
        into.imports[f"import {value.__name__} as {name}"] = None
    elif name in ("DEVICE", "MODE") and value == getattr(course, name):
        into.imports[f"from course import {name}"] = None  # the other process has its own
    elif (text := constant_text(value)) is not None:
        into.constants[name] = f"{name} = {text}"
    elif importable(value) and not (into.kernels_as_text and _is_own_kernel(value)):
        named = plain_function(value) or value
        into.imports[f"from {named.__module__} import {named.__name__} as {name}"] = None
    elif function is not None:
        _collect_function(name, value, function, into)
    else:
        raise CourseError(
            f"{name} is a {type(value).__name__}, which cannot go along into another process: {advice}."
        )


def _is_own_kernel(value: Any) -> bool:
    """Whether it is a kernel or a jitted helper, and none of Triton's."""
    function = plain_function(value)
    return function is not None and function.__module__.partition(".")[0] != "triton"


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    function, text = plain_function(one), constant_text(one)
    return (function is not None and function is plain_function(other)) or (
        text is not None and text == constant_text(other)
    )


def _collect_function(
    name: str, value: Any, function: Callable[..., Any], into: _Collected
) -> None:
    closure = _closure(function, is_kernel=plain_function(value) is not None)
    into.definitions[name] = None  # holds its place against a cycle
    definition = _definition(name, function)
    parsed = _parsed(definition.text)
    if plain_function(value) is not None and not parsed.decorator_list:
        raise CourseError(
            f"{name} was made by a call: write @triton.jit in the line above `def {parsed.name}` instead."
        )
    if parsed.name != function.__name__:
        raise CourseError(
            f"{function.__name__} is no longer what its file has there: start a new session, which reads it again."
        )
    in_code = _globals_in_code(function.__code__) | set(function.__code__.co_freevars)
    outside = function.__globals__ | closure
    for used in sorted(in_code | _names_in_head(parsed)):
        if used in outside:
            inside = used in in_code
            advice = (
                "make it inside the function that uses it"
                if inside
                else f"write it out in the lines above {parsed.name}"
            )
            _collect(used, outside[used], into, advice)
    del into.definitions[name]  # after what it uses
    into.definitions[name] = definition


DEEPEST = 10
"""How far lists may hold lists: one may hold itself."""


def constant_text(value: Any, depth: int = 0) -> str | None:
    """The expression that gives a constant in any module; None for anything else."""
    if type(value) is float:
        return f"float({str(value)!r})"  # inf and nan are no names
    if isinstance(value, triton.language.constexpr):
        inner = constant_text(value.value)
        return inner and f"__import__('triton').language.constexpr({inner})"
    if isinstance(value, triton.language.dtype) and not value.is_ptr():
        return f"__import__('triton').language.dtype({value.name!r})"
    if isinstance(value, torch.dtype):
        return f"__import__('torch').{str(value).removeprefix('torch.')}"
    if isinstance(value, torch.device):
        return f"__import__('torch').device({str(value)!r})"
    if depth < DEEPEST and type(value) in (tuple, list):
        inside = [constant_text(each, depth + 1) for each in value]
        return (
            None if None in inside else f"{type(value).__name__}([{', '.join(map(str, inside))}])"
        )
    if depth < DEEPEST and type(value) is dict:
        pairs = constant_text(list(value.items()), depth + 1)
        return pairs and f"dict({pairs})"
    return repr(value) if type(value) in (bool, int, complex, str, bytes, type(None)) else None


def importable(value: Any) -> bool:
    """Whether another process can import it: it stands in a module, and not in a notebook or script."""
    named = plain_function(value) or value  # an interpreted kernel is of Triton's own module
    home, name = getattr(named, "__module__", None), getattr(named, "__name__", None)
    return (
        home not in (None, "__main__")
        and name is not None
        and getattr(sys.modules.get(home), name, None) is value
    )


def _globals_in_code(code: CodeType) -> set[str]:
    names = {
        i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return names.union(
        *(_globals_in_code(inner) for inner in code.co_consts if isinstance(inner, CodeType))
    )


def _names_in_head(definition: ast.FunctionDef) -> set[str]:
    """Names in decorators, annotations and defaults, which are evaluated outside the function's own code."""
    heads = [
        *definition.decorator_list,
        definition.args,
        *([definition.returns] if definition.returns else []),
    ]
    return {node.id for head in heads for node in ast.walk(head) if isinstance(node, ast.Name)}


def _closure(function: Callable[..., Any], is_kernel: bool) -> dict[str, Any]:
    """What a function takes from the one around it, by name: modules and kernels. Raises CourseError naming anything else."""
    found = inspect.getclosurevars(function).nonlocals
    live = [
        name for name in function.__code__.co_freevars
        if not isinstance(found.get(name), ModuleType) and plain_function(found.get(name)) is None
    ]  # fmt: skip
    if live:
        advice = "define it" if is_kernel else "pass it as an argument, or define it"
        raise CourseError(
            f"{function.__name__} uses {', '.join(live)} from the function around it, which cannot go along into another "
            f"process: {advice} outside."
        )
    return dict(found)


def _definition(name: str, function: Callable[..., Any]) -> Definition:
    if function.__name__ == "<lambda>":
        raise CourseError(f"{name} is a lambda: give it a name with `def`.")
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        raise CourseError(
            f"The source of {function.__name__} cannot be read (it was made by exec, perhaps): define it in a cell or a file."
        ) from error
    text = textwrap.dedent("".join(lines)).rstrip()
    return Definition(name, text, _stable_file(name, function), first)


def _stable_file(name: str, function: Callable[..., Any]) -> str:
    """The path of a function's file; for a cell, whose file name changes with the session, a name of our own."""
    file = function.__code__.co_filename
    is_cell = "ipykernel_" in file or not os.path.exists(file)
    return f"<cell of {name}>" if is_cell else file


def _parsed(text: str) -> ast.FunctionDef:
    definition = ast.parse(text).body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise CourseError(f"{text.splitlines()[0]} … is no plain `def`: write it as one.")
    return definition
