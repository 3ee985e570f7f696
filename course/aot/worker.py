"""Compiling a kernel for the signatures of an export: what runs in the child."""

import os
import tempfile
from dataclasses import dataclass

from course.errors import CourseError
from course.gpus.limits import Target, target_of
from course.isolate import runs_in
from course.lowering.kernel_reference import KernelReference, listing_of, loaded_at
from course.lowering.problems import compile_error, disk_error
from course.triton_internals.compiler import compile_for_types, prepare_compiler
from course.triton_internals.errors import CompileError
from course.triton_internals.jit_functions import jit_function
from course.type_names import Kernel

from .grid import Grid, check_launchable, parse_grid
from .options import Options
from .signature import WRITABLE, Argument, Constant, Signature


@dataclass(frozen=True)
class ParsedVariant:
    """What is to be compiled, not yet bound to a kernel's arguments."""

    signature: Signature
    options: Options


@dataclass(frozen=True)
class CompiledVariant:
    """A kernel's machine code for one signature."""

    arguments: tuple[Argument, ...]
    grid: Grid
    code: bytes
    """The cubin."""
    symbol: str
    """The kernel's name in it."""
    threads: int
    """Threads per program."""
    shared_bytes: int


@dataclass(frozen=True)
class CompiledKernel:
    kernel: str
    """The kernel's own name."""
    variants: tuple[CompiledVariant, ...]


@runs_in("compile", timeout_s=120, prepare=prepare_compiler)
def compile_variants(
    reference: KernelReference, variants: list[ParsedVariant], grid: str, target: str
) -> CompiledKernel:
    """Bind all variants and their grids to a kernel, then compile them.

    Raises CourseError before anything is compiled if one does not fit the kernel; LowerError, with
    the kernel's line, if the kernel does not compile.
    """
    gpu = target_of(target)
    kernel = jit_function(loaded_at(reference, gpu.triton))
    name, defaults = kernel.__name__, _defaults(kernel)
    bound, grids = [], []
    for variant in variants:
        _refuse_unwritable(kernel, len(variant.signature.arguments), defaults)
        bound.append(variant.signature.bind(kernel.arg_names, name, defaults))
    for arguments in bound:
        grids.append(parse_grid(grid, arguments))
        check_launchable(grids[-1])
    try:
        with tempfile.TemporaryDirectory(prefix="course-aot-") as cache:
            # Triton's own cache goes by a kernel's text and not by its file.
            os.environ["TRITON_CACHE_DIR"] = cache
            compiled = [
                _compile(kernel, arguments, grid, variant.options, gpu)
                for arguments, grid, variant in zip(bound, grids, variants, strict=True)
            ]
    except CompileError as error:
        raise compile_error(error, listing_of(kernel), _typed_constants(kernel, bound)) from error
    except OSError as error:
        raise disk_error(error) from error
    return CompiledKernel(name, tuple(compiled))


def _defaults(kernel: Kernel) -> dict[str, Constant]:
    """The constants of a kernel that a signature may leave out."""
    defaults = {
        parameter.name: getattr(parameter.default, "value", parameter.default)  # of a tl.constexpr
        for parameter in kernel.params
        if parameter.is_constexpr and parameter.has_default
    }
    return {
        name: value
        for name, value in defaults.items()
        if value is None or isinstance(value, (bool, int, float))
    }


def _refuse_unwritable(kernel: Kernel, written: int, defaults: dict[str, Constant]) -> None:
    """Raise CourseError if a signature of `written` parts leaves out a constant that no signature
    writes, as a string."""
    for parameter in kernel.params[written:]:
        if parameter.has_default and parameter.name not in defaults:
            value = getattr(parameter.default, "value", parameter.default)
            has = f"{kernel.__name__} has {parameter.name} = {value!r:.60}"
            raise CourseError(f"{has}, and {WRITABLE}")


def _typed_constants(kernel: Kernel, signatures: list[tuple[Argument, ...]]) -> str:
    """What to look at if a kernel does not compile: constants to which a signature gives a type."""
    constants = {parameter.name for parameter in kernel.params if parameter.is_constexpr}
    typed = {
        argument.name: argument.type
        for arguments in signatures
        for argument in arguments
        if argument.type and argument.name in constants
    }
    if not typed:
        return ""
    listed = ", ".join(f"{name} ({type})" for name, type in typed.items())
    return (
        f". The signature gives a type in the place of a tl.constexpr, {listed}: a constant, so "
        f"give its value; {WRITABLE}"
    )


def _compile(
    kernel: Kernel, arguments: tuple[Argument, ...], grid: Grid, options: Options, target: Target
) -> CompiledVariant:
    compiled = compile_for_types(
        kernel,
        {each.name: each.type if each.type and each.passed else "constexpr" for each in arguments},
        {each.name: each.value for each in arguments if not each.passed},
        [each.name for each in arguments if each.passed and each.hint == 16],
        target.triton,
        {**options.told, "debug": bool(getattr(kernel, "debug", False))},
    )
    metadata = compiled.metadata._asdict()
    for name, problem in UNSUPPORTED.items():
        if metadata.get(name, 0) > (name == "num_ctas"):  # one program is no cluster
            raise CourseError(f"{kernel.__name__} cannot be exported: {problem}.")
    threads = metadata["num_warps"] * metadata["warp_size"]
    code, symbol, shared_bytes = compiled.asm["cubin"], metadata["name"], metadata["shared"]
    return CompiledVariant(arguments, grid, code, symbol, threads, shared_bytes)


ONLY_TRITON = "only a launch by Triton has"
NOT_BY_C = "which its C would not launch"
UNSUPPORTED = {
    "global_scratch_size": (
        f"it needs scratch memory, as tl.make_tensor_descriptor does, which {ONLY_TRITON}"
    ),
    "profile_scratch_size": f"it is built for a profiler, which needs memory that {ONLY_TRITON}",
    "num_ctas": f"it runs in clusters of programs (num_ctas), {NOT_BY_C}",
    "launch_cooperative_grid": (
        f"its programs wait for one another (launch_cooperative_grid), {NOT_BY_C}"
    ),
}
"""What the compiler's metadata may say of a kernel -> why that cannot be exported."""
