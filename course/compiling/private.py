"""All that is private in Triton and used here all the same, in one place. Tried with Triton 3.6.0, 3.7.1 and 3.9.0."""

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend
from triton.runtime.jit import JITFunction, create_function_from_signature


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
    """While active, the interpreter tells `observer` of every launch, and of every access before it is made."""
    from triton.runtime import interpreter

    builder, executor = interpreter.interpreter_builder, interpreter.GridExecutor
    plain = {name: getattr(builder, name) for name in ("create_masked_load", "create_masked_store")}
    plain |= {name: getattr(builder, name) for name in ("create_atomic_rmw", "create_atomic_cas")}
    plain_arguments = executor._init_args_hst

    def tell(kind: str, pointers: Any, mask: Any, value: Any = None) -> None:
        element = pointers.get_element_ty()
        itemsize = max(1, getattr(element, "primitive_bitwidth", 64) // 8)  # a pointer has none
        active = np.broadcast_to(mask.data, pointers.data.shape) if mask is not None else ...
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
        args, kwargs = plain_arguments(self, args, kwargs)
        tensors = list(_tensors([*args, *kwargs.values()]))
        storages = [tensor.untyped_storage() for tensor in tensors]
        observer.launch(
            [(storage.data_ptr(), storage.nbytes()) for storage in storages],
            may_hold_pointers=any(tensor.dtype in (torch.int64, torch.uint64) for tensor in tensors),
        )
        return args, kwargs

    watched = {"create_masked_load": load, "create_masked_store": store}
    watched |= {"create_atomic_rmw": update, "create_atomic_cas": compare_and_swap}
    try:
        executor._init_args_hst = arguments
        for name, function in watched.items():
            setattr(builder, name, function)
        yield
    finally:
        executor._init_args_hst = plain_arguments
        for name in watched:
            delattr(builder, name)  # the class's own shows again


def _tensors(arguments: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors among a launch's arguments, in tuples and tensor descriptors too."""
    for argument in arguments:
        if isinstance(argument, tuple):
            yield from _tensors(argument)
        elif isinstance(argument, torch.Tensor):
            yield argument
        elif hasattr(argument, "base"):  # a tensor descriptor, or a tensor seen as another dtype
            yield from _tensors([argument.base])
