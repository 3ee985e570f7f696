"""The JIT with a driver that only names a target, and what it compiles."""

import contextlib
import errno
import functools
import importlib
import os
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import triton
from triton import JITFunction
from triton.backends.compiler import GPUTarget
from triton.compiler import compiler
from triton.compiler.compiler import CompiledKernel as CompiledKernel
from triton.compiler.compiler import make_backend
from triton.runtime import cache

from course.elf import is_whole
from course.type_names import AnyValue, AnyValues

from .driver import driver_of
from .errors import CompileError, compile_problem
from .patching import patched


def prepare_compiler() -> None:
    """Import what a first compilation needs, and find out what each would ask anew."""
    for name in ("compiler.code_generator", "experimental.gluon", "language.extra.libdevice"):
        with contextlib.suppress(ImportError):
            importlib.import_module(f"triton.{name}")
    _files_key()
    with contextlib.suppress(Exception):  # without the assembler, compiling says so
        make_backend(GPUTarget("cuda", 90, 32)).hash()


def known_by_its_files() -> contextlib.AbstractContextManager[None]:
    """While active, Triton's cache tells its versions apart by the sizes and times of its files.

    By itself it hashes them, and its library alone has 500 MB.
    """
    return patched(cache, triton_key=_files_key)


@functools.cache
def _files_key() -> str:
    folder = Path(triton.__file__).parent
    files = sorted([*folder.rglob("*.py"), *folder.glob("_C/*.so")])
    marks = [f"{path.stat().st_size} {path.stat().st_mtime_ns}" for path in files]
    return " ".join([triton.__version__, *marks])


@contextlib.contextmanager
def own_cache(prefix: str) -> Iterator[str]:
    """While active, a temporary folder is Triton's cache, which this yields.

    Triton's usual cache would give what was compiled from the same text in another file. One that
    ends with its compilation need not tell Triton's versions apart, so nothing is hashed for it:
    Triton's library alone has 500 MB.
    """
    with (
        tempfile.TemporaryDirectory(prefix=prefix) as folder,
        patched(cache, triton_key=lambda: ""),
    ):
        os.environ["TRITON_CACHE_DIR"] = folder
        yield folder


@dataclass(frozen=True)
class AssemblerCall:
    """One call of NVIDIA's assembler."""

    command: list[str] = field(default_factory=list)
    log: str = ""
    """What it said."""


@contextlib.contextmanager
def assembler_watched() -> Iterator[list[AssemblerCall]]:
    """While active, note Triton's calls of NVIDIA's assembler in the list that this yields.

    Where the temporary folder is full the assembler may fail without a word, or write half of its
    output and succeed, which Triton would keep in its cache: both raise OSError.
    """
    calls: list[AssemblerCall] = []
    own_run = subprocess.run

    def run(command: Any, *args: AnyValue, **kwargs: AnyValue) -> Any:
        is_ptxas = isinstance(command, list) and "ptxas" in Path(command[0]).name
        if not is_ptxas or "-o" not in command:
            return own_run(command, *args, **kwargs)
        output = Path(command[command.index("-o") + 1])
        try:
            done = own_run(command, *args, **kwargs)
        except subprocess.CalledProcessError:
            refuse_full(output.parent)
            raise
        refuse_half(output)
        log = getattr(kwargs.get("stderr"), "name", None)  # Triton has it write into a file
        text = Path(log).read_text() if isinstance(log, str) else ""
        calls.append(AssemblerCall([str(word) for word in command], text))
        return done

    with patched(subprocess, run=run):
        yield calls


def refuse_full(folder: Path) -> None:
    """Raise OSError where there is no room at all."""
    if os.statvfs(folder).f_bavail == 0:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def refuse_half(binary: Path) -> None:
    """Raise OSError if machine code was not written to its end, which happens for want of room."""
    if not is_whole(binary.read_bytes()):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(binary))


def specialization(kernel: CompiledKernel) -> dict[str, dict[str, Any]]:
    """What a kernel was compiled for, by parameter: its "signature", its "constants" and its
    "attributes"; nothing for edited IR."""
    source = kernel.src
    if not hasattr(source, "attrs"):
        return {}
    names = source.fn.arg_names
    constants = {
        names[place[0]]: repr(value) for place, value in source.constants.items() if len(place) == 1
    }
    attributes = {names[place[0]]: [*map(list, pairs)] for place, pairs in source.attrs.items()}
    return {
        "signature": {str(name): str(type) for name, type in source.signature.items()},
        "constants": constants,
        "attributes": attributes,
    }


@dataclass
class CompiledLaunches:
    """What came of the launches within `launches_compiled`."""

    kernels: list[CompiledKernel]
    problems: list[CompileError]
    """Also those that the launcher has caught."""
    unfinished: int = 0
    """How many were compiled up to Triton's own IR alone."""


FixedTypes = dict[str, tuple[str, Any]]
"""parameter -> (the type to compile for, whatever its value is; and what that promises: "D" for a
multiple of 16, None for nothing, the value for a "constexpr")"""


def types_fixed(kernel: JITFunction, types: FixedTypes) -> contextlib.AbstractContextManager[None]:
    """While active, the JIT specializes these parameters for these types, whatever their values."""
    names = [parameter.name for parameter in kernel.params]

    def create_binder() -> Any:
        *rest, bind = kernel.create_binder()

        def bind_fixed(*args: AnyValue, **kwargs: AnyValue) -> Any:
            bound, entries, options = bind(*args, **kwargs)
            pairs = zip(names, entries, strict=True)
            return bound, [types.get(name, entry) for name, entry in pairs], options

        return *rest, bind_fixed

    return patched(kernel, device_caches=defaultdict(create_binder))


MOST_UNFINISHED = 20
"""Launches that are compiled up to Triton's own IR. The JIT keeps none of it, so that a launch for
each element would compile the same again and again."""


class _FarEnoughError(BaseException):
    """A kernel has come through Triton's own IR. No launcher catches it for a compiler's error."""


@contextlib.contextmanager
def _stopped_before_llvm() -> Iterator[None]:
    from triton.backends.nvidia.compiler import CUDABackend  # which no page has

    own_make_llir = CUDABackend.make_llir

    def make_llir(self: CUDABackend, module: Any, *args: AnyValue) -> Any:
        if "tt.return %" in str(module):  # a kernel that returns a value is refused only there
            return own_make_llir(self, module, *args)
        raise _FarEnoughError

    with patched(CUDABackend, make_llir=make_llir):
        yield


@contextlib.contextmanager
def launches_compiled(
    target: GPUTarget, *, to_machine_code: bool = True
) -> Iterator[CompiledLaunches]:
    """While active, a launch compiles its kernel for `target` as the JIT would, and runs nothing.

    A launch that does not compile raises CompileError. Only where Triton's interpreter is off.

    to_machine_code: otherwise no further than TTGIR, in a third of the time, which shows all but
        what LLVM and the assembler refuse; no kernels come of it. For NVIDIA's GPUs.
    """
    launches = CompiledLaunches([], [])
    own_run = JITFunction.run
    stopped = contextlib.nullcontext() if to_machine_code else _stopped_before_llvm()

    def run(
        self: JITFunction, *args: AnyValue, grid: Any, warmup: bool, **kwargs: AnyValue
    ) -> CompiledKernel | None:
        if launches.unfinished == MOST_UNFINISHED:
            return None
        try:
            with assembler_watched():
                kernel = own_run(self, *args, grid=grid, warmup=True, **kwargs)
        except _FarEnoughError:
            launches.unfinished += 1
            return None
        except (TypeError, OSError):
            raise  # the arguments do not fit, the disk is full: nothing that the compiler says
        except Exception as error:
            problem = compile_problem(error)
            launches.problems.append(problem)
            raise problem from error
        launches.kernels.append(kernel)
        return kernel

    with (
        patched(JITFunction, run=run),
        driver_of(target, runs_trials=True),
        _whole_tracebacks(),
        stopped,
    ):
        yield launches


def compile_for_types(
    kernel: JITFunction,
    signature: dict[str, str],
    constants: AnyValues,
    divisible: list[str],
    target: GPUTarget,
    options: AnyValues,
) -> tuple[CompiledKernel, str]:
    """Compile a kernel for types that are named and not taken from values. With it comes what the
    assembler said. Raises CompileError.

    signature: each argument's type, "constexpr" for those in `constants`. divisible: the arguments
        that are divisible by 16.
    A parameter annotated tl.constexpr may have a type too, and any other be a constant.
    """
    attributes = {(kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in divisible}
    try:
        with (
            driver_of(target, runs_trials=False),
            assembler_watched() as calls,
            _whole_tracebacks(),
        ):
            kernel.create_binder()  # sets the next line's class, another one for a kernel in Gluon
            source = kernel.ASTSource(kernel, signature, constants, attributes)
            compiled = triton.compile(source, target=target, options=options)
            return compiled, "".join(call.log for call in calls)
    except OSError:
        raise
    except Exception as error:
        raise compile_problem(error) from error


def _whole_tracebacks() -> contextlib.AbstractContextManager[None]:
    """While active, the compiler's own frames stay in its errors: they know the expression."""
    return patched(compiler, filter_traceback=lambda error: None)
