"""Compile a kernel for the signatures of an export: what runs in the child. `exporting.py` calls it."""

import base64
import os
import tempfile
from typing import Any

from course.errors import CourseError
from course.gpus.limits import target_of
from course.lowering.kernel_reference import Reference, listing_of, loaded_at
from course.lowering.worker import disk_problem, problem_of
from course.triton_internals.compiler import compile_as_told
from course.triton_internals.errors import CompileError
from course.triton_internals.jit_functions import jit_function

from .grid import check_launchable, parse_grid
from .signature import WRITABLE, Argument, Constant, parse_signature

Json = dict[str, Any]


def compile_variants(reference: Reference, variants: list[Json], grid: str, target: str) -> Json:
    """The machine code of a kernel for each variant.

    variants: "signature" and "options" of each. All are read, and the grid with them, before any is compiled.
    Returns "kernel", its arguments' "names" and "defaults", and "compiled", in order; or "problem" as `stages.compile_kernel`
    does.
    """
    try:
        kernel = jit_function(loaded_at(reference, target_of(target).triton))
        defaults = _defaults(kernel)
        for each in variants:
            _refuse_unwritable(kernel, len(parse_signature(each["signature"]).arguments), defaults)
        read = [
            parse_signature(each["signature"]).bind(kernel.arg_names, kernel.__name__, defaults)
            for each in variants
        ]
        for arguments in read:
            check_launchable(parse_grid(grid, arguments))
    except CourseError as error:
        return {"problem": str(error)}
    try:
        with tempfile.TemporaryDirectory(prefix="course-aot-") as cache:
            os.environ["TRITON_CACHE_DIR"] = (
                cache  # Triton's own cache goes by a kernel's text and not by its file
            )
            compiled = [
                _compile(kernel, arguments, each["options"], target)
                for arguments, each in zip(read, variants, strict=True)
            ]
    except CompileError as error:
        found = problem_of(error, listing_of(kernel))
        return {**found, "problem": found["problem"] + _typed_constants(kernel, read)}
    except CourseError as error:
        return {"problem": str(error)}
    except OSError as error:
        return disk_problem(error)
    return {
        "kernel": kernel.__name__,
        "names": list(kernel.arg_names),
        "defaults": defaults,
        "compiled": compiled,
    }


def _defaults(kernel: Any) -> dict[str, Constant]:
    """The constants among a kernel's arguments that a signature may leave out."""
    given = {
        each.name: each.default for each in kernel.params if each.is_constexpr and each.has_default
    }
    plain = {
        name: getattr(value, "value", value) for name, value in given.items()
    }  # a default may be a tl.constexpr
    return {
        name: value
        for name, value in plain.items()
        if value is None or isinstance(value, (bool, int, float))
    }


def _refuse_unwritable(kernel: Any, given: int, defaults: dict[str, Constant]) -> None:
    """Raise CourseError where a signature of so many parts leaves out a constant that none can write, as a string."""
    for each in kernel.params[given:]:
        if each.has_default and each.name not in defaults:
            value = getattr(each.default, "value", each.default)
            raise CourseError(f"{kernel.__name__} has {each.name} = {value!r:.60}, and {WRITABLE}")


def _typed_constants(kernel: Any, read: list[tuple[Argument, ...]]) -> str:
    """What to look at where a kernel does not compile and a signature has types for its constants."""
    constants = {each.name for each in kernel.params if each.is_constexpr}
    typed = {
        each.name: each.type.name
        for arguments in read
        for each in arguments
        if each.type and each.name in constants
    }
    if not typed:
        return ""
    listed = ", ".join(f"{name} ({type})" for name, type in typed.items())
    return f" The signature gives a type in the place of a tl.constexpr, {listed}: a constant, so give its value; {WRITABLE}"


def _compile(kernel: Any, arguments: tuple[Argument, ...], options: Json, target: str) -> Json:
    made = compile_as_told(
        kernel,
        {
            each.name: each.type.name if each.passed and each.type else "constexpr"
            for each in arguments
        },
        {each.name: each.value for each in arguments if not each.passed},
        [each.name for each in arguments if each.passed and each.hint == 16],
        target_of(target).triton,
        {**options, "debug": bool(getattr(kernel, "debug", False))},
    )
    metadata = made.metadata._asdict()
    if problem := next(
        (words for key, most, words in UNSUPPORTED if metadata.get(key, 0) > most), None
    ):
        raise CourseError(f"{kernel.__name__} cannot be exported: {problem}.")
    return {
        "code": base64.b64encode(made.asm["cubin"]).decode(),
        "symbol": metadata["name"],
        "threads": metadata["num_warps"] * metadata["warp_size"],
        "shared_bytes": metadata["shared"],
    }


UNSUPPORTED = (
    (
        "global_scratch_size",
        0,
        "it needs scratch memory, as tl.make_tensor_descriptor does, which only a launch by Triton has",
    ),
    (
        "profile_scratch_size",
        0,
        "it is built for a profiler, which needs memory that only a launch by Triton has",
    ),
    ("num_ctas", 1, "it runs in clusters of programs (num_ctas), which its C would not launch"),
    (
        "launch_cooperative_grid",
        0,
        "its programs wait for one another (launch_cooperative_grid), which its C would not launch",
    ),
)
"""What the metadata may say at most, and what is the matter where it says more."""
