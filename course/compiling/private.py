"""All that is private in Triton and used here all the same, in one place. Tried with Triton 3.6.0, 3.7.1 and 3.9.0."""

import contextlib
import importlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import triton
from torch.utils._python_dispatch import _disable_current_modes
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import CompiledKernel, make_backend
from triton.compiler.errors import CompilationError
from triton.runtime.cache import triton_key
from triton.runtime.jit import JITFunction, create_function_from_signature

from course.errors import CourseError


def plain_function(kernel: object) -> Callable[..., Any] | None:
    """The Python function under `@triton.jit` (and `@triton.autotune` and the like), or None for anything else.

    Answers alike for compiled and interpreted kernels.
    """
    if not isinstance(kernel, triton.runtime.jit.KernelInterface):
        return None
    while not inspect.isfunction(kernel):
        kernel = getattr(kernel, "fn", None)
        if kernel is None:
            return None
    return kernel


def jit_function(kernel: Any) -> JITFunction[Any]:
    """The kernel itself, under `@triton.autotune`, `@triton.heuristics` and the like. Where the interpreter is off.

    Raises CourseError for what is no kernel.
    """
    while not isinstance(kernel, JITFunction):
        if not isinstance(kernel, triton.runtime.jit.KernelInterface):
            name = getattr(kernel, "__name__", repr(kernel))
            raise CourseError(f"{name} is a {type(kernel).__name__} and no kernel, a function under @triton.jit.")
        kernel = kernel.fn
    return kernel


def compile_ir(path: Path, target: GPUTarget, options: dict[str, Any]) -> CompiledKernel:
    """Compile a file of TTIR or TTGIR on, with the options of the compiler that it knows."""
    known = vars(make_backend(target).parse_options({}))
    given = {key: _hashable(value) for key, value in options.items() if key in known}
    return triton.compile(str(path), target=target, options=given)


def _hashable(value: Any) -> Any:
    """With tuples for the lists that JSON has made of them."""
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def values_with_layouts(ttgir: Path, target: GPUTarget, shared: bool, views: bool) -> Iterator[dict[str, Any]]:
    """Every value of a file of TTGIR that has a layout, in order, with the layout as the compiler's own linear layout.

    shared: values in shared memory, and not those in registers. views: whether to ask for the linear layouts, at which Triton
        3.9.0 aborts the process for the former.
    """
    from triton._C.libtriton import gluon_ir, ir

    context = ir.context()
    ir.load_dialects(context)
    make_backend(target).load_dialects(context)
    module = ir.parse_mlir_module(str(ttgir), context)
    builder = gluon_ir.GluonOpBuilder(context)
    found: list[dict[str, Any]] = []

    def visit(operation: Any) -> None:
        for number in range(operation.get_num_results()):
            value = operation.get_result(number)
            text = str(value.get_type())
            match = re.match(r"(?:tensor|!ttg\.memdesc)<((?:\d+x)+)([^,]*), (#\w+\.\w+(?:<\{.*?\}>+)?)", text)
            if match is None or text.startswith("!ttg.memdesc") != shared:
                continue
            shape = [int(size) for size in match[1].split("x")[:-1]]
            bases = _bases(builder, value, shape, shared) if views and "tensor_memory" not in text else {}
            location = str(value.get_loc())
            variable = re.search(r'(?:^loc\(| at )"(\w+)"\(', location)  # of a library's operation, the caller's
            found.append(
                {
                    "type": text, "shape": shape, "element": match[2], "bases": bases, "operation": operation.get_name(),
                    "variable": variable[1] if variable else "", "location": location,
                }
            )  # fmt: skip

    module.walk(visit)
    yield from found


def _bases(builder: Any, value: Any, shape: list[int], shared: bool) -> dict[str, list[list[int]]]:
    """The bases of a value's linear layout; none where this Triton has no view of it."""
    try:
        if shared:
            layout = builder.get_gluon_layout_from_memdesc(value)
            # In front of its own shape a buffer has the number of copies that a pipeline keeps.
            linear = builder.to_linear_layout(layout._to_ir(builder), shape[-getattr(layout, "rank", 2) :])
            return {"offset": linear.offset_bases, "block": linear.block_bases}
        layout = builder.get_gluon_layout_from_tensor(value)
        linear = builder.to_linear_layout(layout._to_ir(builder), shape)
        return {
            "register": linear.reg_bases, "lane": linear.lane_bases, "warp": linear.warp_bases, "block": linear.block_bases
        }  # fmt: skip
    except (ValueError, TypeError, AttributeError, RuntimeError):
        return {}


def jit_specialise(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], capability: int = 90
) -> tuple[list[tuple[str, str, Any]], dict[str, Any]]:
    """What the JIT would specialise for these arguments: (parameter, type, attribute), in the kernel's order.

    The type is Triton's own ("*fp32", "i32", "constexpr"); the attribute is "D" where the value is divisible by 16,
    "" or None where not, and the value itself for a constexpr (an integer equal to 1 becomes one).
    """
    jit = JITFunction(function)
    backend = make_backend(GPUTarget("cuda", capability, 32))
    bind = create_function_from_signature(jit.signature, jit.params, backend)
    _, specialisation, options = bind(*args, **kwargs)
    known = vars(backend.parse_options(options))
    if unknown := set(options) - set(known):
        raise TypeError(f"{', '.join(sorted(unknown))}: neither a parameter of the kernel nor an option of the compiler")
    usual = vars(backend.parse_options({}))
    unusual = {name: known[name] for name in sorted(options) if known[name] != usual[name]}
    return [(parameter.name, *entry) for parameter, entry in zip(jit.params, specialisation, strict=True)], unusual


class _FixedDriver:
    """Answers what Triton asks of a GPU's driver while it compiles, for a GPU that need not be there."""

    def __init__(self, target: GPUTarget, runs_trials: bool) -> None:
        """runs_trials: whether `@triton.autotune` runs each of its configurations once, or just takes the first."""
        self.target, self.runs_trials = target, runs_trials
        # Kernels are kept in memory by device: a number for each target, or one target's would do for another.
        self.device = abs(hash((target.backend, target.arch))) % 10**6 + 1000

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return self.device

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_benchmarker(self) -> Callable[..., list[float]]:
        def once(call: Callable[[], Any], quantiles: Any = None, **rest: Any) -> list[float]:
            if self.runs_trials:
                call()
            return [1.0, 1.0, 1.0]

        return once


def prepare_compiler() -> None:
    """Do what the first compilation in a process does: hash all of Triton's own files, and import what it needs."""
    triton_key()
    for name in ("compiler.code_generator", "experimental.gluon", "language.extra.libdevice"):
        with contextlib.suppress(ImportError):
            importlib.import_module(f"triton.{name}")


@contextlib.contextmanager
def assembler_watched() -> Iterator[list[tuple[list[str], str]]]:
    """While active, note how Triton calls NVIDIA's assembler. Yields the list that (command, what it said) are added to."""
    calls: list[tuple[list[str], str]] = []
    plain_run = subprocess.run

    def run(command: Any, *args: Any, **kwargs: Any) -> Any:
        done = plain_run(command, *args, **kwargs)
        if isinstance(command, list) and "ptxas" in os.path.basename(command[0]):
            log = getattr(kwargs.get("stderr"), "name", None)  # Triton has it write into a file
            said = Path(log).read_text() if isinstance(log, str) else ""
            calls.append(([str(word) for word in command], said))
        return done

    subprocess.run = run  # type: ignore[assignment]
    try:
        yield calls
    finally:
        subprocess.run = plain_run


@dataclass(frozen=True)
class CompileProblem:
    """Why a kernel does not compile, and where."""

    reason: str
    places: tuple[tuple[str, int], ...] = ()
    """Where the compiler stopped, from the innermost call to the outermost: a function's text, from its `def`, and the line
    in it, from 1."""


class CompileError(Exception):
    """A kernel does not compile."""

    def __init__(self, problem: CompileProblem) -> None:
        super().__init__(problem.reason)
        self.problem = problem


@dataclass
class CompiledLaunches:
    """What came of the launches within `launches_compiled`."""

    kernels: list[CompiledKernel]
    problems: list[CompileError]
    """Also those that the launcher has caught."""


@contextlib.contextmanager
def launches_compiled(target: GPUTarget) -> Iterator[CompiledLaunches]:
    """While active, a launch compiles its kernel for `target` as the JIT would, and runs nothing.

    A launch that does not compile raises CompileError. Only where Triton's interpreter is off.
    """
    launches = CompiledLaunches([], [])
    compiled, failed = launches.kernels, launches.problems
    plain_run = JITFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> CompiledKernel:
        try:
            kernel = plain_run(self, *args, grid=grid, warmup=True, **kwargs)
        except (TypeError, OSError):
            raise  # the arguments do not fit, the disk is full: nothing that the compiler says
        except Exception as error:
            failed.append(CompileError(compile_problem(error)))
            raise failed[-1] from error
        compiled.append(kernel)
        return kernel

    before = triton.runtime.driver._active
    triton.runtime.driver.set_active(_FixedDriver(target, runs_trials=True))
    JITFunction.run = run
    try:
        yield launches
    finally:
        JITFunction.run = plain_run
        triton.runtime.driver._active = before


def compile_problem(error: Exception) -> CompileProblem:
    """What an exception from a compilation says."""
    causes = [error]
    while isinstance(causes[-1].__cause__, Exception):
        causes.append(causes[-1].__cause__)
    located = [each for each in causes if isinstance(each, CompilationError) and hasattr(each.node, "lineno") and each.src]
    words = [getattr(each, "error_message", None) or _own_words(each) for each in causes]
    reason = next((text for text in reversed(words) if text), type(error).__name__)
    wrapped = re.fullmatch(r"[A-Za-z]+\((['\"])(.*)\1\)", reason, re.DOTALL)
    reason = " ".join((wrapped[2].replace("\\'", "'") if wrapped else reason).split())
    reason = _CLEARER.get(reason, reason)
    return CompileProblem(reason, tuple((each.src, each.node.lineno) for each in reversed(located)))


_CLEARER = {
    # What Triton says at `out_ptr[offsets] = x`, and at a call of a kernel without a grid.
    "Did you forget to add @triton.jit ? (`_semantic` argument must be provided outside of JIT functions.)": "a pointer is not "
    "indexed: use tl.load and tl.store",
    "'InterpreterBuilder' object has no attribute 'grid_idx'": "a kernel was called without a grid: write kernel[grid](…)",
    "object of type 'int' has no len()": "the grid is a number, and must be a tuple: write kernel[(programs,)](…)",
}


def interpreter_words(error: Exception) -> str:
    """What an error of the interpreter means, where its own words mislead; else nothing."""
    return _CLEARER.get(str(error), "")


def _own_words(error: Exception) -> str:
    """What an error says, where it does not only show the source."""
    return "" if isinstance(error, CompilationError) else str(error)


class Observer(Protocol):
    """What `interpreter_watched` tells."""

    def launch(self, storages: list[tuple[int, int]], may_hold_pointers: bool) -> None:
        """A kernel starts: the address and size in bytes of each storage among its arguments."""

    def access(
        self, kind: str, addresses: np.ndarray, itemsize: int, program: tuple[int, int, int], values: np.ndarray | None
    ) -> None:
        """A program is about to "load", "store" or "update" (atomically) these addresses; masked lanes are left out.

        addresses: 1-D uint64. itemsize: bytes at each. values: what is stored, as unsigned integers of that size.
        """


@contextlib.contextmanager
def interpreter_watched(observer: Observer) -> Iterator[None]:
    """While active, the interpreter tells `observer` of every launch, and of every access before it is made.

    And it raises where a kernel asks whether a block of several lanes is true.
    """
    from triton.runtime import interpreter

    builder, executor = interpreter.interpreter_builder, interpreter.GridExecutor
    plain = {name: getattr(builder, name) for name in ("create_masked_load", "create_masked_store")}
    plain |= {name: getattr(builder, name) for name in ("create_atomic_rmw", "create_atomic_cas")}
    plain_arguments, plain_restore = executor._init_args_hst, executor._restore_args_dev
    plain_patch = interpreter._patch_lang_tensor

    def tell(kind: str, pointers: Any, mask: Any, value: Any = None) -> None:
        element = pointers.get_element_ty()
        itemsize = max(1, getattr(element, "primitive_bitwidth", 64) // 8)  # a pointer has none
        # A scalar's condition joined with a block's gives integers, which would pick lanes by number.
        active = np.broadcast_to(mask.data, pointers.data.shape).astype(bool) if mask is not None else ...
        values = None
        if value is not None:
            bits = np.ascontiguousarray(np.broadcast_to(value.data, pointers.data.shape)[active])
            values = bits.view(f"u{bits.dtype.itemsize}").ravel()
        observer.access(kind, np.ravel(pointers.data[active]), itemsize, tuple(builder.grid_idx), values)

    def load(pointers: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        tell("load", pointers, mask)
        return plain["create_masked_load"](pointers, mask, *rest, **named)

    def store(pointers: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        tell("store", pointers, mask, value)
        return plain["create_masked_store"](pointers, value, mask, *rest, **named)

    def update(operation: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        tell("update", pointers, mask)
        return plain["create_atomic_rmw"](operation, pointers, value, mask, *rest, **named)

    def compare_and_swap(pointers: Any, *rest: Any, **named: Any) -> Any:
        tell("update", pointers, None)
        return plain["create_atomic_cas"](pointers, *rest, **named)

    def arguments(self: Any, args: Any, kwargs: Any) -> Any:
        with _disable_current_modes():  # its copies are no work of the function that launches
            args, kwargs = plain_arguments(self, args, kwargs)
        tensors = list(_tensors([*args, *kwargs.values()]))
        storages = [tensor.untyped_storage() for tensor in tensors]
        observer.launch(
            [(storage.data_ptr(), storage.nbytes()) for storage in storages],
            may_hold_pointers=any(tensor.dtype in (torch.int64, torch.uint64) for tensor in tensors),
        )
        return args, kwargs

    def restore(self: Any, *rest: Any) -> None:
        with _disable_current_modes():
            plain_restore(self, *rest)

    def patch(tensor: Any, scope: Any) -> None:
        plain_patch(tensor, scope)
        scope.set_attr(tensor, "__bool__", _truth)

    watched = {"create_masked_load": load, "create_masked_store": store}
    watched |= {"create_atomic_rmw": update, "create_atomic_cas": compare_and_swap}
    driver_before = triton.runtime.driver._active
    try:
        triton.runtime.driver.set_active(_FixedDriver(GPUTarget("cuda", 90, 32), runs_trials=False))
        executor._init_args_hst, executor._restore_args_dev = arguments, restore
        interpreter._patch_lang_tensor = patch
        for name, function in watched.items():
            setattr(builder, name, function)
        yield
    finally:
        executor._init_args_hst, executor._restore_args_dev = plain_arguments, plain_restore
        interpreter._patch_lang_tensor = plain_patch
        triton.runtime.driver._active = driver_before
        for name in watched:
            delattr(builder, name)  # the class's own shows again


def _truth(block: Any) -> bool:
    """The truth of an interpreted value. The interpreter by itself takes every block for true, and `a and b` for b."""
    data = block.handle.data
    if data.size > 1:
        if sys._getframe(1).f_globals.get("__name__", "").startswith("triton."):
            return True  # Triton's own code means "is it given?"
        raise ValueError(
            f"A block of {data.size} lanes is neither true nor false: in place of `if` give tl.load and tl.store a mask, "
            "and join conditions by & and |, not by `and` and `or`"
        )
    return bool(data)


def _tensors(arguments: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors among a launch's arguments, in tuples and tensor descriptors too."""
    for argument in arguments:
        if isinstance(argument, tuple):
            yield from _tensors(argument)
        elif isinstance(argument, torch.Tensor):
            yield argument
        elif hasattr(argument, "base"):  # a tensor descriptor, or a tensor seen as another dtype
            yield from _tensors([argument.base])
