"""The interpreter, watched."""

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
import torch
import triton
from torch.utils._python_dispatch import _disable_current_modes
from triton.backends.compiler import GPUTarget

from .compiler import FixedDriver


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
        triton.runtime.driver.set_active(FixedDriver(GPUTarget("cuda", 90, 32), runs_trials=False))
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
