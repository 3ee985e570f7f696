"""Triton's interpreter, with an observer that is told of every launch, program and access."""

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
import triton.language as tl
from torch.utils._python_dispatch import _disable_current_modes
from triton.backends.compiler import GPUTarget
from triton.runtime import interpreter
from triton.runtime.interpreter import GridExecutor, InterpretedFunction, TensorHandle
from triton.tools.tensor_descriptor import TensorDescriptor

from course.type_names import AnyValue, AnyValues, Function, Kernel

from .driver import driver_of
from .interpreter_gaps import gaps_filled
from .patching import as_method, patched
from .reductions import generic_reduce
from .undefined_lanes import Mask, fill_undefined, lanes_of

Program = tuple[int, int, int]
Grid = tuple[int, int, int]
Kind = Literal["load", "store", "update"]
"""What an access does. An update is atomic."""


@dataclass(frozen=True)
class Launch:
    """A kernel that is about to run."""

    kernel: str
    grid: Grid
    arguments: AnyValues
    """parameter -> what it is given; tensors as the interpreter uses them, on the CPU."""
    asked: set[int] = field(default_factory=set)
    """The axes along which a program has asked for its number so far."""

    @cached_property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors among the arguments, in tuples and tensor descriptors too."""
        return [tensor for _, tensor in self.named_tensors()]

    def named_tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Each tensor with its parameter's name, or `name[0]`, `name[1]` … if that has several."""
        for name, argument in self.arguments.items():
            tensors = list(_tensors([argument]))
            for i, tensor in enumerate(tensors):
                yield f"{name}[{i}]" if len(tensors) > 1 else name, tensor


@dataclass(frozen=True)
class Access:
    """What a program is about to do to memory with one tl.load, tl.store or atomic."""

    kind: Kind
    program: Program
    pointers: np.ndarray
    """uint64 addresses, of the block's shape."""
    active: np.ndarray
    """bool, of the same shape: the lanes that no mask keeps out."""
    itemsize: int
    """Bytes at each address."""
    values: np.ndarray | None
    """What is stored, of the same shape."""
    dtype: str = ""
    """The type of what is stored, by Triton's name."""
    undefined: bool = False
    """Whether lanes that a mask keeps out of a load are left without a value."""
    masked: bool = True
    """Whether it was given a mask."""
    exchanges: bool = False
    """Whether it is an atomic that stores, whatever was there before."""
    by_sign: bool = False
    """Whether it is one of the two updates that a floating-point maximum or minimum becomes: one of
    the lanes with a minus, and one of the others."""

    @cached_property
    def addresses(self) -> np.ndarray:
        """The addresses of the active lanes, 1-D."""
        active: np.ndarray = self.pointers[self.active]
        return active

    @property
    def stored(self) -> np.ndarray | None:
        """What the active lanes store, 1-D, as unsigned integers of the item's size."""
        if self.values is None:
            return None
        bits = np.ascontiguousarray(self.values[self.active])
        return bits.view(f"u{bits.dtype.itemsize}")


class Observer(Protocol):
    """What `interpreter_watched` tells."""

    def launch(self, launch: Launch) -> None:
        """A kernel starts."""

    def program(self, program: Program) -> None:
        """One of its programs starts."""

    def access(self, access: Access) -> None:
        """A program is about to touch memory."""


Sample = Callable[[Grid], list[Program]]


@contextlib.contextmanager
def interpreter_watched(
    observer: Observer, sample: Sample | None = None, undefined_as_zero: bool = False
) -> Iterator[None]:
    """While active, the interpreter tells `observer` of every launch, program and access to come.

    What the interpreter lacks is filled: see `gaps_filled`. It raises where a kernel asks whether a
    block of several lanes is true, and puts extremes where the language leaves a value undefined:
    in a masked lane for which no `other` was given, where the interpreter by itself puts 0.

    sample: from a grid, the programs to run, in order; by default all run.
    undefined_as_zero: leave the 0 in such lanes.
    """
    watched = WatchedInterpreter(observer, sample, undefined_as_zero)
    target = GPUTarget("cuda", 90, 32)
    with (
        gaps_filled(),
        driver_of(target, runs_trials=True),
        watched.installed(),
        patched(interpreter.ReduceOps, generic_reduce=generic_reduce),
    ):
        yield


def launches_noted(
    note: Callable[[Kernel, tuple[AnyValue, ...], AnyValues], None],
) -> contextlib.AbstractContextManager[None]:
    """While active, `note` is told of each launch in the interpreter before it runs: the kernel,
    and the arguments and options as they are given, by place and by name."""
    own_run = InterpretedFunction.run

    def run(self: Any, *args: AnyValue, grid: Any, warmup: bool, **kwargs: AnyValue) -> None:
        note(self, args, kwargs)
        own_run(self, *args, grid=grid, warmup=warmup, **kwargs)

    return patched(InterpretedFunction, run=run)


class _Call(NamedTuple):
    """A function of the builder that touches memory: the places among its arguments."""

    kind: Kind
    pointers: int
    mask: int | None = None
    value: int | None = None
    """What is stored."""
    other: int | None = None
    """What lanes hold that the mask keeps out."""

    @property
    def is_masked_update(self) -> bool:
        return self.kind == "update" and self.mask is not None


_CALLS = {
    "create_masked_load": _Call("load", 0, mask=1, other=2),
    "create_masked_store": _Call("store", 0, mask=2, value=1),
    "create_atomic_rmw": _Call("update", 1, mask=3),
    "create_atomic_cas": _Call("update", 0),
}
_UNMASKED = ("create_load", "create_store")
"""Functions of the builder that make a mask which lets everything pass."""
_BY_SIGN = ("atomic_max", "atomic_min")
"""Functions of the language that compare the bits of floating-point numbers as integers."""


class WatchedInterpreter:
    """Takes the place of functions of the interpreter: tells the observer, and calls them."""

    def __init__(self, observer: Observer, sample: Sample | None, undefined_as_zero: bool) -> None:
        self._observer, self._sample = observer, sample
        self._undefined_as_zero = undefined_as_zero
        self._builder = interpreter.interpreter_builder
        accesses: dict[str, Function] = {
            **{name: self._watched(name, call) for name, call in _CALLS.items()},
            "create_splat": self._splat,
            "create_get_program_id": self._number,
            "set_grid_dim": self._set_grid,
            "set_grid_idx": self._set_program,
        }
        launches: dict[str, Function] = {
            "__call__": as_method(self._run),
            "_init_args_hst": as_method(self._copy_arguments),
            "_restore_args_dev": as_method(self._copy_back),
        }
        tensors: dict[str, Function] = {"_patch_lang_tensor": self._patch_tensor}
        self._methods: tuple[tuple[Any, dict[str, Function]], ...] = (
            (self._builder, accesses), (GridExecutor, launches), (interpreter, tensors),
        )  # fmt: skip
        self._own = {name: getattr(owner, name) for owner, names in self._methods for name in names}
        self._kernel, self._arguments = "", dict[str, Any]()
        """The launch that is being prepared."""
        self._asked: set[int] = set()
        self._sampled_grid: Grid = (1, 1, 1)
        self._sampled_programs: list[Program] = []
        self._undefined_blocks = 0

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """While active, the interpreter calls these methods in place of its own."""
        with contextlib.ExitStack() as stack:
            for owner, methods in self._methods:
                stack.enter_context(patched(owner, **methods))
            yield

    # A launch

    def _run(self, executor: GridExecutor, *args: AnyValue, **kwargs: AnyValue) -> None:
        if self._sample:
            grid = executor.grid

            def sampled_grid(arguments: AnyValues) -> tuple[int]:
                assert self._sample is not None
                whole = grid(arguments) if callable(grid) else grid
                self._sampled_grid = (*whole, 1, 1, 1)[:3]
                self._sampled_programs = self._sample(self._sampled_grid)
                return (len(self._sampled_programs),)

            executor.grid = sampled_grid
        self._own["__call__"](executor, *args, **kwargs)

    def _copy_arguments(
        self, executor: GridExecutor, args: Sequence[AnyValue], kwargs: AnyValues
    ) -> tuple[Sequence[AnyValue], AnyValues]:
        with _disable_current_modes():  # its copies are no work of the function that launches
            args, kwargs = self._own["_init_args_hst"](executor, args, kwargs)
        self._kernel = executor.fn.__name__
        self._arguments = inspect.getcallargs(executor.fn, *args, **kwargs)
        return args, kwargs

    def _copy_back(
        self,
        executor: GridExecutor,
        args: Sequence[AnyValue],
        copies: Sequence[AnyValue],
        kwargs: AnyValues,
        named_copies: AnyValues,
    ) -> None:
        if all(tensor.device.type == "cpu" for tensor in _tensors([*args, *kwargs.values()])):
            return  # it has used the tensors themselves, and would copy their memory onto itself
        with _disable_current_modes():
            self._own["_restore_args_dev"](executor, args, copies, kwargs, named_copies)

    def _set_grid(self, x: int, y: int, z: int) -> None:
        grid = self._sampled_grid if self._sample else (x, y, z)
        self._builder.grid_dim = grid
        launch = Launch(self._kernel, grid, self._arguments)
        self._asked = launch.asked
        self._observer.launch(launch)

    def _set_program(self, x: int, y: int, z: int) -> None:
        # A sample's programs stand along the first axis, one after the other.
        program = self._sampled_programs[x] if self._sample else (x, y, z)
        self._builder.grid_idx = program
        self._observer.program(program)

    def _number(self, axis: int) -> TensorHandle:
        self._asked.add(axis)
        number: TensorHandle = self._own["create_get_program_id"](axis)
        return number

    # An access

    def _watched(self, name: str, call: _Call) -> Function:
        """A function of the builder that tells of its access before it makes it."""

        def access(*args: Any, **named: Any) -> Any:
            mask = None if call.mask is None else args[call.mask]
            value = None if call.value is None else args[call.value]
            undefined = call.other is not None and args[call.other] is None
            caller = sys._getframe(1)
            function = caller.f_code.co_name
            self._tell(
                call.kind,
                args[call.pointers],
                mask,
                value,
                undefined=undefined,
                masked=function not in _UNMASKED,
                exchanges=function == "atomic_xchg",
                by_sign=function in _BY_SIGN and "neg" in caller.f_locals,
            )
            result = self._own[name](*args, **named)
            return self._undefine(result, mask) if undefined or call.is_masked_update else result

        return access

    def _tell(
        self, kind: Kind, pointers: TensorHandle, mask: Mask | None, value: Any, **traits: bool
    ) -> None:
        # A pointer has no width of its own.
        itemsize = max(1, getattr(pointers.get_element_ty(), "primitive_bitwidth", 64) // 8)
        shape = pointers.data.shape
        lanes = True if mask is None else lanes_of(mask)
        access = Access(
            kind,
            self._builder.grid_idx,
            pointers.data,
            np.broadcast_to(lanes, shape),
            itemsize,
            None if value is None else np.broadcast_to(value.data, shape),
            "" if value is None else str(value.dtype.scalar),
            **traits,
        )
        self._observer.access(access)

    def _undefine(self, block: TensorHandle, mask: Mask | None) -> TensorHandle:
        if mask is not None and not self._undefined_as_zero:
            fill_undefined(block, mask, largest_first=self._undefined_blocks % 2 == 0)
            self._undefined_blocks += 1
        return block

    # Mended on the way

    def _splat(self, block_type: tl.block_type, value: TensorHandle) -> TensorHandle:
        # The interpreter makes integers of a scalar's condition, and from 3.9 on refuses them as a
        # mask.
        block = self._own["create_splat"](block_type, value)
        if value.data.dtype == bool:
            block.data = block.data.astype(bool)
        return block

    def _patch_tensor(self, tensor: type[tl.tensor], scope: Any) -> None:
        self._own["_patch_lang_tensor"](tensor, scope)
        scope.set_attr(tensor, "__bool__", _truth)
        scope.set_attr(tensor, "__setitem__", _refuse_assignment)
        # Triton 3.6 asks NumPy for the number in an array of one, which NumPy 2.4 refuses: no loop
        # up to an argument would run.
        scope.set_attr(tensor, "__index__", lambda block: int(block.handle.data.squeeze()))


def _truth(block: tl.tensor) -> bool:
    """The truth of an interpreted value.

    The interpreter by itself takes every block for true, and `a and b` for b.
    """
    data = block.handle.data
    if data.size > 1:
        if sys._getframe(1).f_globals.get("__name__", "").startswith("triton."):
            return True  # Triton's own code means "is there one?"
        raise ValueError("a block is neither true nor false")
    return bool(data)


def _refuse_assignment(*_: Any) -> None:
    raise NotImplementedError("__setitem__ is not supported in triton")  # in the compiler's words


def interpreted_array(value: AnyValue) -> np.ndarray | None:
    """The interpreter's data of a tensor, in the tensor's shape; None for any other value."""
    data = getattr(getattr(value, "handle", None), "data", None)
    if not isinstance(data, np.ndarray) or getattr(value, "dtype", None) is None:
        return None
    return data.reshape([int(size) for size in value.shape] if value.type.is_block() else ())


def _tensors(arguments: Iterable[AnyValue]) -> Iterator[torch.Tensor]:
    """The tensors among values, in tuples and tensor descriptors too."""
    for argument in arguments:
        if isinstance(argument, tuple):
            yield from _tensors(argument)
        elif isinstance(argument, torch.Tensor):
            yield argument
        elif isinstance(argument, TensorDescriptor) or hasattr(argument, "base"):
            yield from _tensors([argument.base])  # `base` of a tensor seen as another dtype, too
