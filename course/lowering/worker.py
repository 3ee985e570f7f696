"""Compile a kernel through all stages: what runs in the child. `lower.py` calls it."""

import ast
import base64
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import triton

from course.errors import CourseError
from course.files import advice
from course.gpus.limits import target_of
from course.triton_internals.compiler import (
    Told,
    assembler_watched,
    launches_compiled,
    prepare_compiler,
    types_told,
)
from course.triton_internals.errors import CompileError, compile_problem
from course.triton_internals.ir import compile_ir, values_with_layouts
from course.triton_internals.jit_functions import chosen_by_heuristics, jit_function

from .arguments import describe, make, told_type
from .kernel_reference import listing_of, loaded_at
from .signature_text import split_signature

TEXTS = ("ttir", "ttgir", "llir", "ptx", "amdgcn")
BINARIES = ("cubin", "hsaco")

Json = dict[str, Any]


def prepare_worker() -> None:
    """What Triton would otherwise compute in each compilation anew."""
    prepare_compiler()


def compile_kernel(
    reference: Json, args: list[Json], kwargs: dict[str, Json], target: str, literal: bool
) -> Json:
    """All stages of a kernel.

    reference: where the kernel is: {"source": …}, {"module": …, "name": …} or {"file": …, "name": …}.
    literal: whether texts for constexpr parameters are Python literals, as on the command line, where they can be.
    Returns "stages", "binary" (base64), "metadata" and "listing"; or "problem" with "line", "place" and "details".
    """
    try:
        given = loaded_at(reference, target_of(target).triton)
        kernel = jit_function(given)
    except CourseError as error:
        return {"problem": str(error)}
    listing = listing_of(kernel)
    try:
        given_args, given_kwargs, told = _bind(given, kernel, args, kwargs, literal)
        with (
            tempfile.TemporaryDirectory(prefix="course-lower-") as cache,
            launches_compiled(target_of(target).triton) as found,
            assembler_watched() as commands,
            types_told(kernel, told),
        ):
            # A cache of its own: Triton's would give back what was compiled from the same text in
            # another file.
            os.environ["TRITON_CACHE_DIR"] = cache
            kernel[(1,)](*given_args, **given_kwargs)
            return _result(found.kernels[0], listing, commands)
    except CompileError as error:
        return _with_constants(problem_of(error, listing), kernel, args, kwargs)
    except (TypeError, KeyError) as error:
        words = str(error.args[0] if error.args else error).replace(
            "dynamic_func()", kernel.__name__
        )
        chosen = (
            ""
            if given is kernel
            else " What @triton.autotune or @triton.heuristics would choose must be given by name."
        )
        return {
            "problem": f"The arguments do not fit the kernel {kernel.__name__}: {words}.{chosen}"
        }
    except CourseError as error:
        return {"problem": str(error)}
    except OSError as error:
        return disk_problem(error)


def compile_again(
    text: str, extension: str, name: str, target: str, options: Json, listing: list[Json]
) -> Json:
    """The stages after `extension`, from its edited text."""
    try:
        with tempfile.TemporaryDirectory(prefix="course-lower-") as folder:
            os.environ["TRITON_CACHE_DIR"] = folder
            path = Path(folder) / f"{name}.{extension}"
            path.write_text(text)
            with assembler_watched() as commands:
                return _result(
                    compile_ir(path, target_of(target).triton, options), listing, commands
                )
    except OSError as error:
        return disk_problem(error)
    except Exception as error:
        problem = compile_problem(error)
        return {
            "problem": f"The edited {extension} does not compile: {_first_line(problem.reason)}",
            "details": str(error),
        }


def passes_of(
    reference: Json, args: list[Json], kwargs: dict[str, Json], target: str, literal: bool
) -> Json:
    """What `compile_kernel` returns, with "dump": the compiler's print of the IR before every
    pass."""
    with tempfile.TemporaryDirectory(prefix="course-lower-") as folder:
        dump = Path(folder) / "dump.mlir"
        os.environ |= {"MLIR_ENABLE_DUMP": "1", "MLIR_DUMP_PATH": str(dump)}
        result = compile_kernel(reference, args, kwargs, target, literal)
        return {**result, "dump": dump.read_text() if dump.exists() else ""}


def layouts_of(ttgir: str, target: str) -> list[Json]:
    """Every value of a TTGIR that has a layout, those in registers first: see
    `private.ir.values_with_layouts`."""
    aliases = dict(re.findall(r"^(#\w+) = (#\w+\..*)$", ttgir, re.MULTILINE))
    found = []
    with tempfile.TemporaryDirectory(prefix="course-lower-") as folder:
        path = Path(folder) / "kernel.ttgir"
        path.write_text(ttgir)
        values = values_with_layouts(path, target_of(target).triton)
        for value in sorted(values, key=lambda each: "memdesc" in each["type"]):
            attribute = _encoding(value.pop("type"))
            name = next(
                (alias for alias, text in aliases.items() if _expanded(text, aliases) == attribute),
                "",
            )
            found.append({**value, "attribute": attribute, "name": name})
    return found


def _encoding(type: str) -> str:
    """The layout in a type: `#ttg.slice<{dim = 1, parent = #ttg.blocked<{…}>}>` of `tensor<64xi32,
    #ttg.slice<…>>`."""
    start, depth = type.index(", #") + 2, 0
    for end in range(start, len(type)):
        depth += {"<": 1, ">": -1}.get(type[end], 0)
        if depth < 0 or (depth == 0 and type[end] == ","):
            return type[start:end]
    return type[start:]


def _expanded(text: str, aliases: dict[str, str]) -> str:
    """An attribute with the aliases in it written out."""
    return re.sub(r"#\w+\b(?![.\w])", lambda match: aliases.get(match[0], match[0]), text)


def _bind(
    given: Any, kernel: Any, args: list[Json], kwargs: dict[str, Json], literal: bool
) -> tuple[list[Any], Json, Told]:
    """What a launch would be given, by place and by name, and the types that the JIT is to be told
    of.

    given: the kernel as it was found, perhaps under `@triton.heuristics`.
    """
    names = [parameter.name for parameter in kernel.params]
    if len(args) > len(names):
        raise TypeError(f"it takes {len(names)} arguments and was given {len(args)}")
    described = dict(zip(names, args, strict=False))
    for name in kwargs:
        if name in described:
            raise TypeError(f"{name} is given twice, by its place and by its name")
        if name in ("grid", "warmup") and name not in names:
            raise TypeError(f"{name} belongs to a launch, and nothing is launched")
    described |= kwargs
    constexprs = {parameter.name for parameter in kernel.params if parameter.is_constexpr}
    constants = constexprs | set(described).difference(
        names
    )  # what is no parameter is an option of the compiler
    if literal:
        described = {name: _read(each, name in constants) for name, each in described.items()}
        values = {
            name: each["text"] if "text" in each else make(each, True)
            for name, each in described.items()
        }
        described |= {
            name: describe(value)
            for name, value in chosen_by_heuristics(given, names, [], values).items()
        }
    bound: Json = {}
    told: Told = {}
    for name, each in described.items():
        is_constant = name in constants
        type = told_type(each.get("text", ""), is_constant) if literal or not is_constant else None
        if each.get("list") and not is_constant:
            raise TypeError(
                f"{name} is a list: give a tensor, or a tuple where the kernel takes one"
            )
        if type is not None and name in names:
            told[name] = type
        elif literal and "constant" in each and name in names:  # as in a signature for export
            told[name] = "constexpr", make(each, True)
        bound[name] = make(each, is_constant and name not in told)
    _check_options({name: value for name, value in bound.items() if name not in names})
    # By place as far as it goes: a parameter may be called self, as an argument of the JIT's own
    # is.
    first = next((place for place, name in enumerate(names) if name not in bound), len(names))
    return [bound.pop(name) for name in names[:first]], bound, told


def _read(described: Json, is_constant: bool) -> Json:
    """What a text of a command line describes: a literal, a tuple of texts, or a type."""
    if "text" not in described:
        return described
    text = described["text"].strip()
    value = _literal(text)
    if not isinstance(value, str) and (is_constant or not isinstance(value, triton.language.dtype)):
        return describe(value)
    if text.startswith("(") and text.endswith(")"):
        return {
            "items": [_read({"text": part}, is_constant) for part in split_signature(text[1:-1])]
        }
    return {"text": value} if is_constant and isinstance(value, str) else described


def _check_options(options: Json) -> None:
    """Raise CourseError for numbers at which the compiler aborts or says nothing of use."""
    for name in ("num_warps", "num_ctas"):
        value = options.get(name, 1)
        if type(value) is not int or value < 1 or value & (value - 1):
            raise CourseError(f"{name} is {value!r}: it must be a power of two, as 4.")


_NO_CONSTANT = re.compile(
    r"has no attribute|must be of type tl\.constexpr|must be an? (?:`?tl\.)?constexpr|NoneType"
)
"""What Triton says where it wants a constant, and has something else."""


def _with_constants(problem: Json, kernel: Any, args: list[Json], kwargs: dict[str, Json]) -> Json:
    """A problem that comes from what a constant was given, with that said."""
    if not _NO_CONSTANT.search(problem["problem"]):
        return problem
    described = dict(zip([each.name for each in kernel.params], args, strict=False)) | kwargs
    given = {each.name: described.get(each.name, {}) for each in kernel.params if each.is_constexpr}
    found = [(name, each.get("text", each.get("constant"))) for name, each in given.items()]
    odd = [
        (name, text)
        for name, text in found
        if text and not isinstance(_literal(text), (bool, int, float))
    ]
    if not odd:
        return problem
    words = " and ".join(f"{name} is a constant and was given as {text}" for name, text in odd)
    return {
        **problem,
        "problem": f"{problem['problem'].rstrip('.')}: {words}, so give the value that it has in a launch.",
    }


def _literal(text: str) -> Any:
    """The constant that a text writes: a Python literal, a type such as tl.float32 or fp32, or the
    text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = getattr(triton.language, text.removeprefix("tl."), None)
        return value if isinstance(value, triton.language.dtype) else text


def _result(compiled: Any, listing: list[Json], assembler: list[tuple[list[str], str]]) -> Json:
    kind = next(kind for kind in BINARIES if kind in compiled.asm)
    metadata = {
        key: value
        for key, value in compiled.metadata._asdict().items()
        if key not in ("target", "hash")
    }
    specialised = {}
    if hasattr(compiled.src, "attrs"):  # compiled from Python, and not from edited IR
        names = compiled.src.fn.arg_names
        specialised = {
            "signature": {str(name): str(type) for name, type in compiled.src.signature.items()},
            "constants": {
                names[place[0]]: repr(value)
                for place, value in compiled.src.constants.items()
                if len(place) == 1
            },
            "attributes": {
                names[place[0]]: [list(pair) for pair in pairs]
                for place, pairs in compiled.src.attrs.items()
            },
        }
    return {
        "kernel": compiled.name,
        "stages": {stage: compiled.asm[stage] for stage in TEXTS if stage in compiled.asm},
        "binary": base64.b64encode(compiled.asm[kind]).decode(),
        "metadata": {**specialised, "options": _plain(metadata)},
        "listing": listing,
        "assembler": assembler[-1][0] if assembler else [],
        "assembler_log": assembler[-1][1] if assembler else "",
    }


def _plain(metadata: Json) -> Json:
    """What JSON can say of the metadata."""
    return {
        key: value
        for key, value in metadata.items()
        if isinstance(value, (bool, int, float, str, list, dict, tuple, type(None)))
    }


def problem_of(error: CompileError, listing: list[Json]) -> Json:
    """Why a kernel does not compile, with its line."""
    problem = error.problem
    details = str(error.__cause__ or error)
    place = problem.within([(function["text"], function["line"]) for function in listing])
    if place is None:
        return {
            "problem": f"It does not compile: {_first_line(problem.reason)}",
            "details": details,
        }
    function = listing[place.which]
    return {
        "problem": f"{function['name']} does not compile: {_first_line(problem.reason)}",
        "file": function["file"], "line": place.line, "text": place.text, "details": details,
    }  # fmt: skip


def disk_problem(error: OSError) -> Json:
    """What an OSError of the compiler's says: of the disk, or of a library of Triton's that cannot
    be loaded."""
    if error.errno is None:
        return {
            "problem": f"Triton lacks a part of its own ({error}): install it anew, as `make clean setup` does."
        }
    return {
        "problem": f"The compiler could not write its files in {tempfile.gettempdir()}: {error.strerror}; {advice(error)}."
    }


def _first_line(reason: str) -> str:
    """The first sentence of a compiler's words; of ptxas's, its own first error."""
    if match := re.search(
        r"ptxas[\w-]* [^;]*; (?:error|fatal) *: (.*?)(?= ptxas| Repro|$)", reason
    ):
        return f"ptxas says: {match[1].strip().rstrip('.')}."
    return reason.split(". ")[0].rstrip(".") + "."
