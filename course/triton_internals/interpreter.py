"""The interpreter, watched."""

import contextlib
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes
from triton.backends.compiler import GPUTarget
from triton.tools.tensor_descriptor import TensorDescriptor

from .driver import driver_of
from .interpreter_gaps import gaps_filled

Program = tuple[int, int, int]
Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """A kernel that is about to run."""

    kernel: str
    grid: Grid
    arguments: dict[str, Any]
    """By the kernel's parameters; tensors as the interpreter uses them, on the CPU."""

    @cached_property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors among the arguments, in tuples and tensor descriptors too."""
        return [tensor for _, tensor in self.named_tensors()]

    def named_tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        for name, value in self.arguments.items():
            found = list(_tensors([value]))
            yield from (
                (f"{name}[{i}]" if len(found) > 1 else name, tensor)
                for i, tensor in enumerate(found)
            )


@dataclass(frozen=True)
class Access:
    """What a program is about to do to memory with one tl.load, tl.store or atomic."""

    kind: Literal["load", "store", "update"]
    """An update is atomic."""
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
    """Of what is stored, Triton's name."""
    undefined: bool = False
    """Whether lanes that a mask keeps out of a load are left without a value."""

    @cached_property
    def addresses(self) -> np.ndarray:
        """Of the active lanes, 1-D."""
        return self.pointers[self.active]

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
def interpreter_watched(observer: Observer, sample: Sample | None = None) -> Iterator[None]:
    """While active, the interpreter tells `observer` of every launch, every program, and every access before it is made.

    What the interpreter lacks is filled: see `gaps.gaps_filled`. And it raises where a kernel asks whether a block of several
    lanes is true, and makes extremes of what the language leaves undefined: a masked lane that no `other` was given for, where
    the interpreter by itself puts 0.
    sample: of a grid, the programs to run, in order; by default all.
    """
    from triton.runtime import interpreter

    builder, executor = interpreter.interpreter_builder, interpreter.GridExecutor
    plain = {name: getattr(builder, name) for name in ("create_masked_load", "create_masked_store")}
    plain |= {
        name: getattr(builder, name)
        for name in ("create_atomic_rmw", "create_atomic_cas", "create_splat")
    }
    plain_arguments, plain_restore = executor._init_args_hst, executor._restore_args_dev
    plain_patch = interpreter._patch_lang_tensor
    bound: list[tuple[str, dict[str, Any]]] = []  # of the launch that is being prepared
    chosen: list[Program] = []
    turns = itertools.count()  # of what is undefined

    def tell(
        kind: Literal["load", "store", "update"],
        pointers: Any,
        mask: Any,
        value: Any = None,
        undefined: bool = False,
    ) -> None:
        element = pointers.get_element_ty()
        itemsize = max(1, getattr(element, "primitive_bitwidth", 64) // 8)  # a pointer has none
        shape = pointers.data.shape
        # A scalar's condition joined with a block's gives integers, which would pick lanes by number.
        active = (
            np.ones(shape, dtype=bool)
            if mask is None
            else np.broadcast_to(mask.data, shape).astype(bool)
        )
        values = np.broadcast_to(value.data, shape) if value is not None else None
        dtype = str(value.dtype.scalar) if value is not None else ""
        observer.access(
            Access(
                kind, builder.grid_idx, pointers.data, active, itemsize, values, dtype, undefined
            )
        )

    def load(pointers: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
        undefined = other is None
        tell("load", pointers, mask, undefined=undefined)
        return defined(
            plain["create_masked_load"](pointers, mask, other, *rest, **named),
            mask if undefined else None,
        )

    def defined(block: Any, mask: Any) -> Any:
        if mask is not None:
            _undefine(
                block,
                ~np.broadcast_to(mask.data, block.data.shape).astype(bool),
                next(turns) % 2 == 0,
            )
        return block

    def store(pointers: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        tell("store", pointers, mask, value)
        return plain["create_masked_store"](pointers, value, mask, *rest, **named)

    def update(
        operation: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **named: Any
    ) -> Any:
        tell("update", pointers, mask)
        return defined(
            plain["create_atomic_rmw"](operation, pointers, value, mask, *rest, **named), mask
        )

    def compare_and_swap(pointers: Any, *rest: Any, **named: Any) -> Any:
        tell("update", pointers, None)
        return plain["create_atomic_cas"](pointers, *rest, **named)

    def splat(block_type: Any, value: Any) -> Any:
        # The interpreter makes integers of a scalar's condition, and from 3.9 on refuses them as a mask.
        made = plain["create_splat"](block_type, value)
        made.data = made.data.astype(bool) if value.data.dtype == bool else made.data
        return made

    def arguments(self: Any, args: Any, kwargs: Any) -> Any:
        with _disable_current_modes():  # its copies are no work of the function that launches
            args, kwargs = plain_arguments(self, args, kwargs)
        bound[:] = [(self.fn.__name__, inspect.getcallargs(self.fn, *args, **kwargs))]
        return args, kwargs

    def set_grid_dim(*sizes: int) -> None:
        builder.grid_dim = sizes
        kernel, given = bound[0]
        observer.launch(Launch(kernel, sizes, given))  # type: ignore[arg-type]  # three of them

    def set_grid_idx(*indices: int) -> None:
        # A sample's programs stand along the first axis, one after the other.
        builder.grid_idx = chosen[indices[0]] if sample else indices
        observer.program(builder.grid_idx)

    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        if sample:
            whole = self.grid

            def of_sample(given: Any) -> tuple[int]:
                sizes = (*(whole(given) if callable(whole) else whole), 1, 1, 1)[:3]
                chosen[:] = sample(sizes)
                builder.set_grid_dim = lambda *_: set_grid_dim(*sizes)
                return (len(chosen),)

            self.grid = of_sample
        plain_call(self, *args, **kwargs)

    def restore(self: Any, args: Any, *rest: Any) -> None:
        if all(tensor.device.type == "cpu" for tensor in _tensors([*args, *rest[1].values()])):
            return  # the interpreter has used the tensors themselves, and would copy their memory onto itself
        with _disable_current_modes():
            plain_restore(self, args, *rest)

    def patch(tensor: Any, scope: Any) -> None:
        plain_patch(tensor, scope)
        scope.set_attr(tensor, "__bool__", _truth)
        scope.set_attr(tensor, "__setitem__", _refused_assignment)
        # Triton 3.6 asks NumPy for the number in an array of one, which NumPy 2.4 refuses: no loop to an argument would run.
        scope.set_attr(tensor, "__index__", lambda block: int(block.handle.data.squeeze()))

    plain_call = executor.__call__
    watched: dict[str, Callable[..., Any]] = {
        "create_masked_load": load,
        "create_masked_store": store,
    }
    watched |= {
        "create_atomic_rmw": update,
        "create_atomic_cas": compare_and_swap,
        "create_splat": splat,
    }
    watched |= {"set_grid_dim": set_grid_dim, "set_grid_idx": set_grid_idx}
    replaced = {name: value for name, value in vars(builder).items() if name in watched}
    others = contextlib.ExitStack()
    try:
        others.enter_context(gaps_filled())
        others.enter_context(driver_of(GPUTarget("cuda", 90, 32), runs_trials=True))
        executor._init_args_hst, executor._restore_args_dev, executor.__call__ = (
            arguments,
            restore,
            call,
        )
        interpreter._patch_lang_tensor = patch
        for name, function in watched.items():
            setattr(builder, name, function)
        yield
    finally:
        executor._init_args_hst, executor._restore_args_dev = plain_arguments, plain_restore
        executor.__call__ = plain_call
        interpreter._patch_lang_tensor = plain_patch
        others.close()
        for name in watched:
            delattr(builder, name)  # the class's own shows again, …
            if name in replaced:
                setattr(builder, name, replaced[name])  # … or another watcher's


def _undefine(block: Any, lanes: np.ndarray, largest_first: bool) -> None:
    """Fill these lanes with the largest and the smallest there is, in turns: no sum, maximum, minimum or product hides both."""
    data, largest, smallest = block.data, *_extremes(block)
    if not data.ndim or data.size == 1:
        largest_first = False  # it may be how often a loop runs
    turns = np.cumsum(lanes).reshape(lanes.shape) % 2 == largest_first
    data[lanes & turns], data[lanes & ~turns] = largest, smallest


def _extremes(block: Any) -> tuple[Any, Any]:
    """The largest and the smallest of a block's type; of one without numbers below 0, nothing near 0 either."""
    dtype, name = block.data.dtype, str(block.dtype.scalar)
    if dtype.kind == "f":
        return np.inf, -np.inf
    if name == "bf16":  # which the interpreter keeps as bits, as it does fp8
        return 0x7F80, 0xFF80
    if name.startswith("fp8"):
        return 0x7F, 0x7F  # NaN
    if dtype.kind == "b":
        return True, True
    most = np.iinfo(dtype).max
    if dtype.kind == "u":
        return most, most - 1
    if (
        dtype.itemsize == 8
    ):  # less, since an offset of so many elements in bytes would come round to 0
        return most // 16, -most // 16
    return most, np.iinfo(dtype).min


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


def _refused_assignment(*_: Any) -> None:
    raise NotImplementedError("__setitem__ is not supported in triton")  # in the compiler's words


def _tensors(arguments: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors among values, in tuples and tensor descriptors too."""
    for argument in arguments:
        if isinstance(argument, tuple):
            yield from _tensors(argument)
        elif isinstance(argument, torch.Tensor):
            yield argument
        elif isinstance(argument, TensorDescriptor) or hasattr(
            argument, "base"
        ):  # or a tensor seen as another dtype
            yield from _tensors([argument.base])
