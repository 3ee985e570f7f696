"""In the child: a request's arguments as a launch takes them, and the types to tell the JIT of."""

import ast
import re
from typing import Any

import triton
from triton import JITFunction, KernelInterface

from course.brackets import split_signature
from course.errors import CourseError
from course.triton_internals.choices import with_choices
from course.triton_internals.compiler import FixedTypes
from course.triton_internals.jit_functions import compiler_options
from course.type_names import AnyValue, AnyValues

from .arguments import Constant, Described, Items, Request, Text, describe
from .type_texts import fixed_type


def bind(
    decorated: KernelInterface, kernel: JITFunction, request: Request
) -> tuple[list[AnyValue], AnyValues, FixedTypes]:
    """The arguments of a launch, by place and by name, and the types that the JIT is to be told of.

    Raises TypeError if they do not fit the kernel.
    decorated: the kernel as it was loaded, perhaps under `@triton.heuristics`.
    """
    names = [parameter.name for parameter in kernel.params]
    described = _described(decorated, kernel, request, names)
    constants = _constants(kernel, described)
    values: AnyValues = {}
    types: FixedTypes = {}
    for name, argument in described.items():
        is_constant = name in constants
        if isinstance(argument, Items) and argument.is_list and not is_constant:
            raise TypeError(
                f"{name} is a list: give a tensor, or a tuple where the kernel takes one"
            )
        type = None
        if isinstance(argument, Text) and (request.literal or not is_constant):
            type = fixed_type(argument.text, is_constant)
        elif isinstance(argument, Constant) and request.literal:  # as in a signature for export
            type = "constexpr", argument.make(True)
        if type is not None and name in names:
            types[name] = type
        values[name] = argument.make(is_constant and name not in types)
    others = {name: value for name, value in values.items() if name not in names}
    _check_options(others)
    missing = [each.name for each in kernel.params if not (each.name in values or each.has_default)]
    if missing and (unknown := sorted(others.keys() - compiler_options())):
        raise TypeError(f"it has no parameter {unknown[0]}, and nothing is given for {missing[0]}")
    # By place as far as it goes: a parameter may be called self, as an argument of the JIT's own
    # is.
    first_missing = next((i for i, name in enumerate(names) if name not in values), len(names))
    return [values.pop(name) for name in names[:first_missing]], values, types


def _described(
    decorated: KernelInterface, kernel: JITFunction, request: Request, names: list[str]
) -> dict[str, Described]:
    """The arguments by name, with those that decorators choose."""
    if len(request.args) > len(names):
        raise TypeError(f"it takes {len(names)} arguments and was given {len(request.args)}")
    for name in request.kwargs:
        if name in names[: len(request.args)]:
            raise TypeError(f"{name} is given twice, by its place and by its name")
        if name in ("grid", "warmup") and name not in names:
            raise TypeError(f"{name} belongs to a launch, and nothing is launched")
    described = request.by_name(names)
    if not request.literal:  # the session has chosen
        return described
    constants = _constants(kernel, described)
    described = {name: _parsed(each, name in constants) for name, each in described.items()}
    values = {name: argument.make(True) for name, argument in described.items()}
    chosen = with_choices(decorated, [], values)
    return {name: described.get(name, describe(value)) for name, value in chosen.items()}


def _constants(kernel: JITFunction, described: dict[str, Described]) -> set[str]:
    """The arguments that are constants, and the options of the compiler."""
    plain = {parameter.name for parameter in kernel.params if not parameter.is_constexpr}
    return set(described) - plain


def _parsed(argument: Described, is_constant: bool) -> Described:
    """What a text of the command line describes: a literal, a tuple of texts, or a type."""
    if not isinstance(argument, Text):
        return argument
    text = argument.text.strip()
    value = literal(text)
    if not isinstance(value, str) and (is_constant or not isinstance(value, triton.language.dtype)):
        return describe(value)
    if text.startswith("(") and text.endswith(")"):
        return Items([_parsed(Text(part), is_constant) for part in split_signature(text[1:-1])])
    return Text(value) if is_constant and isinstance(value, str) else argument


def literal(text: str) -> Any:
    """The constant that a text writes: a literal, a type as tl.float32, or the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = getattr(triton.language, text.removeprefix("tl."), None)
        return value if isinstance(value, triton.language.dtype) else text


def _check_options(options: AnyValues) -> None:
    """Raise CourseError for numbers at which the compiler aborts or says nothing of use."""
    for name in ("num_warps", "num_ctas"):
        value = options.get(name, 1)
        if type(value) is not int or value < 1 or value & (value - 1):
            raise CourseError(f"{name} is {value!r}: it must be a power of two, as 4.")


_WANTS_CONSTANT = re.compile(
    r"has no attribute|must be of type tl\.constexpr|must be an? (?:`?tl\.)?constexpr|NoneType"
)
"""What Triton says if it wants a constant, and has something else."""


def odd_constants(problem: str, kernel: JITFunction, request: Request) -> str:
    """The constants that are no numbers, if a problem may come from them, to end its sentence."""
    if not _WANTS_CONSTANT.search(problem):
        return ""
    described = request.by_name([parameter.name for parameter in kernel.params])
    odd = []
    for parameter in kernel.params:
        argument = described.get(parameter.name)
        text = argument.text if isinstance(argument, Text) else getattr(argument, "python", "")
        if parameter.is_constexpr and text and not isinstance(literal(text), (bool, int, float)):
            odd.append(f"{parameter.name} is a constant and was given as {text}")
    return f": {' and '.join(odd)}, so give the value that it has in a launch." if odd else ""
