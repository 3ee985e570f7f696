"""A function and all it uses, in a form that another process can define again.

Kernels and their helpers, plain functions, imported modules and what was imported from them, and
constants go along by name. What lives in this process alone (a tensor, an open file, the closure of
a plain function) is named in an error.
"""

import ast
import builtins
import dis
import inspect
import linecache
import os
import re
import sys
import textwrap
from dataclasses import dataclass, fields, is_dataclass
from types import CodeType, ModuleType
from typing import Any

import torch
import triton

import course
from course.errors import CourseError
from course.triton_internals.jit_functions import evaluated_function, jit_decorator, plain_function
from course.type_names import AnyValue, AnyValues, Function, kind_of


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
    decorator: str = ""
    """An expression that stands for the decorators in the text, whose names need not go along; if
    empty, they are the text's own."""

    @property
    def alone(self) -> str:
        """The text for a file of its own, with its decorators."""
        parsed, lines = _parsed(self.text), self.text.split("\n")
        if self.decorator:
            lines[: parsed.lineno - 1] = [f"@{self.decorator}"]
        if self.name != parsed.name:
            lines.append(f"{self.name} = {parsed.name}")
        return "\n".join(lines)

    @property
    def place(self) -> str:
        """The file as a sentence names it."""
        return place_of(self.file)


OTHER_CELL = re.compile(r"<cell elsewhere, of (\w+)>")


def place_of(file: str) -> str:
    """A file or cell as a sentence names it: "your cell" is that of the function itself."""
    if other := OTHER_CELL.fullmatch(file):
        return f"the cell of {other[1]}"
    is_cell = file.startswith("<cell") or "ipykernel_" in file
    return "your cell" if is_cell else os.path.basename(file)


@dataclass(frozen=True)
class Source:
    """A function as text, with everything it uses from its own module or notebook."""

    imports: tuple[str, ...]
    constants: tuple[str, ...]
    definitions: tuple[Definition, ...]
    """The function itself comes last."""

    def load(self) -> Function:
        """Define it here, in a module of its own, and return the function; its lines keep their
        numbers."""
        module = ModuleType("course_answer")
        sys.modules[module.__name__] = module  # where inspect and dataclasses look
        names = vars(module)
        for line in (*self.imports, *self.constants):
            exec(line, names)
        if course.MODE.interpreting:
            _suit_the_interpreter(names)
        for definition in self.definitions:
            _define(definition, names)
        function: Function = names[self.definitions[-1].name]
        return function


def _suit_the_interpreter(names: AnyValues) -> None:
    """Change a module's names as the interpreter needs them, and the compiler does not."""
    # It asks every function for the language, and not every function names it.
    names.setdefault("_language", triton.language)
    # It cannot multiply a block by a constexpr in a helper.
    for name, value in names.items():
        if isinstance(value, triton.language.constexpr):
            names[name] = value.value


def _define(definition: Definition, names: AnyValues) -> None:
    """Define a function among a module's names, under the name by which it is used."""
    keep_lines(definition)
    parsed = _parsed(definition.text)
    own_name = parsed.name
    if definition.decorator:
        decorator = ast.parse(definition.decorator, mode="eval").body
        for node in ast.walk(decorator):  # the function begins where its first decorator stood
            ast.copy_location(node, (*parsed.decorator_list, parsed)[0])
        parsed.decorator_list = [decorator]
    ast.increment_lineno(parsed, definition.line - 1)
    # Two functions may have been defined under one name, one after the other.
    earlier = names.get(own_name)
    exec(compile(ast.Module([parsed], []), definition.file, "exec"), names)
    function = names[own_name]
    names[definition.name] = function.__func__ if isinstance(function, staticmethod) else function
    if earlier is not None and own_name != definition.name:
        names[own_name] = earlier


def keep_lines(definition: Definition) -> None:
    """Have the text found by file and line, as Triton and tracebacks look for it."""
    # All lines of a real file: others of its functions may be imported.
    lines = list(linecache.getlines(definition.file))
    new = [f"{line}\n" for line in definition.text.split("\n")]
    first, last = definition.line - 1, definition.line - 1 + len(new)
    if textwrap.dedent("".join(lines[first:last])).rstrip() == definition.text:
        # it is indented, as part of another function, to which the lines below must not belong
        return
    lines += ["\n"] * (last - len(lines))
    lines[first:last] = new
    linecache.cache[definition.file] = (sum(map(len, lines)), None, lines, definition.file)


def source_of(value: AnyValue, kernels_as_text: bool = False) -> Source:
    """The source of a function, plain or under @triton.jit, with all it uses from its own module or
    notebook.

    kernels_as_text: take kernels of other modules as text too, so that their lines can be shown and
        each run defines them anew. By default they are imported there, and keep their module's
        names.
    Raises CourseError that names what cannot go along.
    """
    function = plain_function(value) or inspect.unwrap(value)
    into = _Collection({}, {}, {}, {}, kernels_as_text, function.__code__.co_filename)
    into.values[function.__name__] = value
    _collect_function(function.__name__, value, function, into)
    # course goes first: importing it picks the mode, which must come before Triton is imported.
    imports = sorted(into.imports, key=lambda line: not line.split()[1].startswith("course"))
    definitions = tuple(filter(None, into.definitions.values()))
    return Source(("import course", *imports), tuple(into.constants.values()), definitions)


@dataclass
class _Collection:
    """What goes along, in order, each once."""

    imports: dict[str, None]
    """Import lines."""
    constants: dict[str, str]
    """name -> the source line that sets it"""
    definitions: dict[str, Definition | None]
    """name -> its definition; None for a function that is being collected"""
    values: AnyValues
    """What each name means."""
    kernels_as_text: bool
    file: str
    """Where the function itself stands."""


def _collect(name: str, value: AnyValue, into: _Collection, advice: str) -> None:
    """Take along what a name means. advice: what to do if it cannot go along."""
    if not _same(into.values.setdefault(name, value), value):
        raise CourseError(
            f"{name} means one thing in one module and another in the next: "
            "give one of them another name."
        )
    if name in into.definitions:
        return
    function = plain_function(value) or evaluated_function(value)
    if function is None and inspect.isfunction(value):
        function = inspect.unwrap(value)
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
        kind = kind_of(value)
        if isinstance(value, type):
            kind, advice = "a class", "move it to a module, and import it from there"
        raise CourseError(
            f"{name} is {kind}, which cannot go along into another process: {advice}."
        )


def _is_own_kernel(value: AnyValue) -> bool:
    """Whether it is a kernel or a jitted helper, and none of Triton's."""
    function = plain_function(value)
    return function is not None and function.__module__.partition(".")[0] != "triton"


def _same(one: AnyValue, other: AnyValue) -> bool:
    """Whether two values are one kernel, one constant, or one thing."""
    function, text = plain_function(one), constant_text(one)
    if function is not None:
        return function is plain_function(other)
    return one is other or (text is not None and text == constant_text(other))


def _collect_function(name: str, value: AnyValue, function: Function, into: _Collection) -> None:
    is_kernel = plain_function(value) is not None
    closure = _closure(function, is_kernel)
    into.definitions[name] = None  # holds its place against a cycle
    definition = _definition(name, value, function, into.file)
    parsed = _parsed(definition.text)
    if parsed.name != function.__name__:
        raise CourseError(
            f"{function.__name__} is no longer what its file has there: "
            "start a new session, which reads it again."
        )
    in_body = _globals_in_code(function.__code__) | set(function.__code__.co_freevars)
    in_head = _names_in_head(parsed, decorators=not definition.decorator)
    outside = function.__globals__ | closure
    if unknown := sorted(in_head - set(outside) - set(vars(builtins))):
        raise CourseError(
            f"The line of `def {parsed.name}`, or a decorator above it, uses {unknown[0]} from the "
            f"function around it, which cannot go along into another process: define it outside."
        )
    for used in sorted((in_body | in_head) & set(outside)):
        advice = f"write it out in the lines above {parsed.name}"
        if used in in_body:
            advice = "make it inside the function that uses it"
        _collect(used, outside[used], into, advice)
    del into.definitions[name]  # after what it uses
    into.definitions[name] = definition


GLUON = "triton.experimental.gluon."
DEEPEST = 10
"""Lists in lists that are followed: one may hold itself."""


def constant_text(value: AnyValue, depth: int = 0) -> str | None:
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
    kind = type(value)
    if is_dataclass(value) and kind.__module__.startswith(GLUON):  # a layout
        given = {each.name: constant_text(getattr(value, each.name)) for each in fields(value)}
        if None in given.values():
            return None
        arguments = ", ".join(f"{name}={text}" for name, text in given.items())
        return f"__import__({kind.__module__!r}, fromlist=['']).{kind.__name__}({arguments})"
    if depth < DEEPEST and type(value) in (tuple, list):
        items = [constant_text(item, depth + 1) for item in value]
        if None in items:
            return None
        return f"{type(value).__name__}([{', '.join(map(str, items))}])"
    if depth < DEEPEST and type(value) is dict:
        pairs = constant_text(list(value.items()), depth + 1)
        return pairs and f"dict({pairs})"
    return repr(value) if type(value) in (bool, int, complex, str, bytes, type(None)) else None


def importable(value: AnyValue) -> bool:
    """Whether another process can import it: it stands in a module, and not in a notebook or
    script."""
    named = plain_function(value) or value  # an interpreted kernel is of Triton's own module
    home, name = getattr(named, "__module__", None), getattr(named, "__name__", None)
    if home in (None, "__main__") or name is None:
        return False
    return getattr(sys.modules.get(home), name, None) is value


def _globals_in_code(code: CodeType) -> set[str]:
    """The global names that a function's code reads, with the functions inside it."""
    reads = [i for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return {read.argval for read in reads}.union(*map(_globals_in_code, inner))


def _names_in_head(definition: ast.FunctionDef, decorators: bool) -> set[str]:
    """Names in annotations, defaults and perhaps decorators, which are evaluated outside the
    function's code."""
    parameters = definition.args
    heads = [
        *(definition.decorator_list if decorators else ()),
        *parameters.defaults,
        *parameters.kw_defaults,
        *(node.annotation for node in ast.walk(parameters) if isinstance(node, ast.arg)),
        definition.returns,
    ]
    # As code, which knows the names of lambdas' own parameters and of comprehensions.
    return {
        name
        for head in heads
        if head is not None
        for name in _globals_in_code(compile(ast.Expression(head), "<head>", "eval"))
    }


def _closure(function: Function, is_kernel: bool) -> dict[str, Any]:
    """What a function takes from the one around it, by name: modules, kernels, and in a kernel
    constants, which it cannot change.

    Raises CourseError that names anything else.
    """
    outer = dict(inspect.getclosurevars(function).nonlocals)
    goes = {
        name
        for name, value in outer.items()
        if isinstance(value, ModuleType)
        or plain_function(value) is not None
        or (is_kernel and constant_text(value) is not None)
    }
    live = [name for name in function.__code__.co_freevars if name not in goes]
    if live:
        advice = "define it" if is_kernel else "pass it as an argument, or define it"
        raise CourseError(
            f"{function.__name__} uses {', '.join(live)} from the function around it, "
            f"which cannot go along into another process: {advice} outside."
        )
    return outer


def _definition(name: str, value: AnyValue, function: Function, own_file: str) -> Definition:
    if function.__name__ == "<lambda>":
        raise CourseError(f"{name} is a lambda: give it a name with `def`.")
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        raise CourseError(
            f"The source of {function.__name__} cannot be read (it was made by exec, perhaps): "
            "define it in a cell or a file."
        ) from error
    text = textwrap.dedent("".join(lines)).rstrip()
    file = _stable_file(name, function, own_file)
    return Definition(name, text, file, first, jit_decorator(value))


def _stable_file(name: str, function: Function, own_file: str) -> str:
    """The path of a function's file; for a cell, whose path changes with the session, a name of
    ours."""
    file = function.__code__.co_filename
    if "ipykernel_" not in file and os.path.exists(file):
        return file
    return f"<cell of {name}>" if file == own_file else f"<cell elsewhere, of {name}>"


def _parsed(text: str) -> ast.FunctionDef:
    definition = ast.parse(text).body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise CourseError(f"{text.splitlines()[0]} … is no plain `def`: write it as one.")
    return definition
