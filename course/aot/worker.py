"""Compiling a kernel for the signatures of an export: what runs in the child."""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from course.errors import CourseError
from course.gpus.limits import Target, target_of
from course.isolate import runs_in
from course.lowering.compile_errors import compile_error, disk_error
from course.lowering.kernel_reference import KernelReference, listing_of, loaded_at
from course.lowering.memory_requests import load_widths
from course.lowering.missing_promises import missing_promises
from course.triton_internals.compiler import (
    CompiledKernel,
    compile_for_types,
    own_cache,
    prepare_compiler,
)
from course.triton_internals.errors import CompileError
from course.triton_internals.jit_functions import jit_function
from course.type_names import Kernel

from .grid import check_launchable, parse_grid
from .options import Options
from .signature import WRITABLE, Argument, Constant, Signature, constants_of, value_of

Parsed = tuple[Signature, Options]
"""What is to be compiled, not yet bound to a kernel's arguments."""


@dataclass(frozen=True)
class CompiledVariant:
    """A kernel's machine code for one signature."""

    arguments: tuple[Argument, ...]
    code: bytes
    """The cubin."""
    symbol: str
    """The kernel's name in it."""
    threads: int
    """Threads per program."""
    shared_bytes: int
    load_bytes: tuple[int, ...]
    """Bytes that a thread's load instructions move from global memory, each number once."""
    spills: bool
    """Whether the assembler stored values for which it found no register."""
    narrow: str
    """What makes its loads narrower than they need be, as the end of a sentence that begins with
    its name; empty if nothing does."""


@runs_in("compile", timeout_s=120, prepare=prepare_compiler)
def compile_variants(
    reference: KernelReference,
    variants: list[Parsed],
    grid: str,
    target: str,
    constants: dict[str, Constant],
) -> tuple[str, str, list[CompiledVariant]]:
    """Bind all variants and their grids to a kernel, then compile them: the kernel's own name, the
    hash of its text and of all that it calls, and the variants.

    constants: what signatures may leave out at their end, beside what has a default.
    Raises CourseError before anything is compiled if one does not fit the kernel; LowerError, with
    the kernel's line, if the kernel does not compile.
    """
    gpu = target_of(target)
    kernel = jit_function(loaded_at(reference, gpu.triton))
    name, defaults = kernel.__name__, _defaults(kernel) | constants
    bound = []
    for signature, _ in variants:
        _refuse_unwritable(kernel, len(signature.arguments), defaults)
        bound.append(signature.bind(kernel.arg_names, name, defaults))
    for arguments in bound:
        check_launchable(parse_grid(grid, arguments))
    try:
        with own_cache("course-aot-"):
            bound_variants = zip(variants, bound, _fallbacks(bound, variants), strict=True)
            texts = "\n".join(each.text for each in listing_of(kernel))
            digest = hashlib.sha256(texts.encode()).hexdigest()[:16]
            compiled = [
                _compile(kernel, arguments, options, gpu, fallback)
                for (_, options), arguments, fallback in bound_variants
            ]
            return name, digest, compiled
    except CompileError as error:
        raise compile_error(error, listing_of(kernel), _typed_constants(kernel, bound)) from error
    except OSError as error:
        raise disk_error(error) from error


def _defaults(kernel: Kernel) -> dict[str, Constant]:
    """The constants of a kernel that a signature may leave out."""
    return constants_of(
        {
            parameter.name: getattr(parameter.default, "value", parameter.default)  # tl.constexpr's
            for parameter in kernel.params
            if parameter.is_constexpr and parameter.has_default
        }
    )


def _refuse_unwritable(kernel: Kernel, written: int, defaults: dict[str, Constant]) -> None:
    """Raise CourseError if a signature of `written` parts leaves out a constant that no signature
    writes, as a tuple, or an argument of run time for its default."""
    for parameter in kernel.params[written:]:
        if parameter.name in defaults:
            continue
        if not parameter.has_default:
            return
        if parameter.is_constexpr:
            value = getattr(parameter.default, "value", parameter.default)
            has = f"{kernel.__name__} has {parameter.name} = {value!r:.60}"
            raise CourseError(f"{has}, and {WRITABLE}")
        raise CourseError(
            f"The signature leaves out {parameter.name}, whose default is used at a launch alone: "
            "give its type, or a constant in its place."
        )


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
        f". The signature gives a type of run time in the place of a tl.constexpr, {listed}: a "
        "constant, so give its value, or tl.fp16 and the like if that is a type."
    )


Promises = frozenset[tuple[str, int]]
"""Arguments, each with its hint."""


def _fallbacks(
    bound: list[tuple[Argument, ...]], variants: list[Parsed]
) -> list[tuple[Promises, ...]]:
    """For each variant what the others promise that are tried before it: it only serves calls
    that break those promises, so it need not be fast."""
    promised = [frozenset((each.name, each.hint) for each in one if each.hint) for one in bound]
    alike = [
        (options, [(each.name, each.value) for each in one if each.constant])
        for one, (_, options) in zip(bound, variants, strict=True)
    ]
    return [
        tuple(
            other
            for other, key in zip(promised, alike, strict=True)
            if key == own and other > promises
        )
        for promises, own in zip(promised, alike, strict=True)
    ]


def _compile(
    kernel: Kernel,
    arguments: tuple[Argument, ...],
    options: Options,
    target: Target,
    fallback: tuple[Promises, ...] = (),
) -> CompiledVariant:
    """fallback: what the variants promise that are tried before this one."""

    def machine_code(arguments: Sequence[Argument]) -> tuple[CompiledKernel, str]:
        passed = {each.name: each.type for each in arguments if each.type and each.passed}
        return compile_for_types(
            kernel,
            {each.name: passed.get(each.name, "constexpr") for each in arguments},
            {each.name: value_of(each.value) for each in arguments if not each.passed},
            [each.name for each in arguments if each.passed and each.hint == 16],
            target.triton,
            {**options.told, "debug": bool(getattr(kernel, "debug", False))},
        )

    compiled, log = machine_code(arguments)
    metadata = compiled.metadata._asdict()
    for name, problem in UNSUPPORTED.items():
        if metadata.get(name, 0) > (name == "num_ctas"):  # one program is no cluster
            raise CourseError(f"{kernel.__name__} cannot be exported: {problem}.")
    threads = metadata["num_warps"] * metadata["warp_size"]
    code, symbol, shared_bytes = compiled.asm["cubin"], metadata["name"], metadata["shared"]
    narrow = _narrow_loads(arguments, fallback, compiled, machine_code)
    load_bytes = tuple(sorted(set(load_widths(compiled.asm["ptx"]))))
    spills = re.search(r"[1-9]\d* bytes spill stores", log) is not None  # beside arrays and prints
    return CompiledVariant(
        arguments, code, symbol, threads, shared_bytes, load_bytes, spills, narrow
    )


def _narrow_loads(
    arguments: Sequence[Argument],
    fallback: tuple[Promises, ...],
    compiled: CompiledKernel,
    machine_code: Callable[[Sequence[Argument]], tuple[CompiledKernel, str]],
) -> str:
    """What promises would make wider; empty if there is nothing, or a variant before has them."""
    missing = missing_promises(compiled.asm.get("ttir", ""))
    if not missing or any(promised.issuperset(missing.items()) for promised in fallback):
        return ""
    promised = [
        replace(each, hint=hint, value=1 if hint == 1 else None)
        if (hint := missing.get(each.name))
        else each
        for each in arguments
    ]
    # Whether they would help, the compiler alone knows: so it is asked.
    wider = load_widths(machine_code(promised)[0].asm["ptx"])
    widths = load_widths(compiled.asm["ptx"])
    if not widths or min(widths) >= max(wider) or len(wider) >= len(widths):
        return ""
    promises = ", ".join(
        f"{each.name}:{missing[each.name]}" for each in arguments if each.name in missing
    )
    return (
        f"loads {min(widths)} bytes at a time, and would load {max(wider)} if the signature "
        f"promised {promises}: promise what holds in every call."
    )


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
