"""What runs in the child that compiles."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course.errors import CourseError
from course.gpus.limits import target_of
from course.isolate import runs_in
from course.triton_internals.compiler import (
    AssemblerCall,
    CompiledKernel,
    assembler_watched,
    launches_compiled,
    own_cache,
    prepare_compiler,
    specialization,
    types_fixed,
)
from course.triton_internals.errors import CompileError, compile_problem
from course.triton_internals.ir import LaidOutValue, compile_ir, values_with_layouts
from course.triton_internals.jit_functions import jit_function
from course.type_names import AnyValues

from .arguments import Request
from .binding import bind, odd_constants
from .compile_errors import LowerError, compile_error, disk_error, first_sentence
from .kernel_reference import Listing, listing_of, loaded_at

TEXTS = ("ttir", "glir", "ttgir", "llir", "ptx", "amdgcn")
BINARIES = ("cubin", "hsaco")
TIMEOUT_S = 120


@dataclass(frozen=True)
class Compiled:
    """What the compiler made of a kernel."""

    kernel: str
    texts: dict[str, str]
    """The stages that are text, in order."""
    binary: bytes
    metadata: dict[str, Any]
    """See `result.Lowered.metadata`."""
    listing: Listing
    assembler: AssemblerCall
    """How Triton called NVIDIA's assembler."""


@runs_in("compile", timeout_s=TIMEOUT_S, prepare=prepare_compiler)
def compile_kernel(request: Request, target: str) -> Compiled:
    """All stages of a kernel. Raises LowerError, or CourseError if the kernel cannot be loaded."""
    gpu = target_of(target).triton
    decorated = loaded_at(request.kernel, gpu)
    kernel = jit_function(decorated)
    listing = listing_of(kernel)
    try:
        args, kwargs, types = bind(decorated, kernel, request)
        with (
            own_cache("course-lower-"),
            launches_compiled(gpu) as launches,
            assembler_watched() as calls,
            types_fixed(kernel, types),
        ):
            kernel[(1,)](*args, **kwargs)
            return _compiled(launches.kernels[0], listing, calls)
    except CompileError as error:
        reason = first_sentence(error.reason)
        raise compile_error(error, listing, odd_constants(reason, kernel, request)) from error
    except (TypeError, KeyError) as error:
        name = kernel.__name__
        words = str(error.args[0] if error.args else error).replace("dynamic_func()", name)
        raise LowerError(
            f"The arguments do not fit the kernel {name}: {words}.", kind="arguments"
        ) from error
    except OSError as error:
        raise disk_error(error) from error


@runs_in("compile", timeout_s=TIMEOUT_S, prepare=prepare_compiler)
def compile_edited(
    text: str, stage: str, name: str, target: str, options: AnyValues, listing: Listing
) -> Compiled:
    """The stages after `stage`, from its edited text."""
    try:
        with own_cache("course-lower-") as folder, assembler_watched() as calls:
            path = Path(folder) / f"{name}.{stage}"
            path.write_text(text)
            return _compiled(compile_ir(path, target_of(target).triton, options), listing, calls)
    except OSError as error:
        raise disk_error(error) from error
    except Exception as error:
        reason = first_sentence(compile_problem(error).reason)
        raise LowerError(f"The edited {stage} does not compile: {reason}", str(error)) from error


@runs_in("compile", timeout_s=TIMEOUT_S, prepare=prepare_compiler)
def passes_of(request: Request, target: str) -> str:
    """The compiler's print of the IR before every pass."""
    with tempfile.TemporaryDirectory(prefix="course-lower-") as folder:
        dump = Path(folder) / "dump.mlir"
        os.environ |= {"MLIR_ENABLE_DUMP": "1", "MLIR_DUMP_PATH": str(dump)}
        compile_kernel.here(request, target)
        return text_of(dump) if dump.exists() else ""


def text_of(dump: Path) -> str:
    """The text of a file. Raises CourseError for one that is too large to come back from here."""
    from course.isolate.fork_server import MOST_VALUE_BYTES  # which no page of the site can load

    megabytes, most = dump.stat().st_size / 1e6, MOST_VALUE_BYTES / 1e6
    if megabytes > most:
        raise CourseError(
            f"The IR before all passes of this kernel has {megabytes:,.0f} MB, and {most:,.0f} MB "
            "of it can be kept: take a smaller block."
        )
    return dump.read_text()


@runs_in("compile", timeout_s=TIMEOUT_S, prepare=prepare_compiler)
def layouts_of(ttgir: str, target: str) -> list[LaidOutValue]:
    """Every value of a TTGIR that has a layout, those in registers first."""
    with tempfile.TemporaryDirectory(prefix="course-lower-") as folder:
        path = Path(folder) / "kernel.ttgir"
        path.write_text(ttgir)
        values = values_with_layouts(path, target_of(target).triton)
        return sorted(values, key=lambda value: value.type.shared)


def _compiled(kernel: CompiledKernel, listing: Listing, calls: Sequence[AssemblerCall]) -> Compiled:
    metadata = kernel.metadata._asdict()
    plain = (bool, int, float, str, list, dict, tuple, type(None))
    options = {
        name: value
        for name, value in metadata.items()
        if isinstance(value, plain) and name not in ("target", "hash")
    }
    return Compiled(
        kernel.name,
        {stage: kernel.asm[stage] for stage in TEXTS if stage in kernel.asm},
        next(kernel.asm[kind] for kind in BINARIES if kind in kernel.asm),
        {**specialization(kernel), "options": options},
        listing,
        calls[-1] if calls else AssemblerCall(),
    )
