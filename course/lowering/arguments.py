"""A launch's arguments as records, from which another process makes them again.

For the compiler a tensor becomes what the JIT asks of it: its dtype, where its address lies against
16 bytes, and the size of its storage. It is made again on PyTorch's meta device, so it takes no
memory however large it is. To run a kernel in the other process, tensors are kept aside, with their
values.
"""

from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import torch
import triton
from triton import KernelInterface, TensorWrapper
from triton.tools.tensor_descriptor import TensorDescriptor

from course.errors import CourseError
from course.isolate.function_source import Source, constant_text, source_of
from course.triton_internals.jit_functions import plain_function
from course.type_names import AnyValue, AnyValues

from .kernel_reference import KernelReference
from .type_texts import DTYPES, meta_tensor, value_of_type

Kept = Sequence[torch.Tensor]


class Text(msgspec.Struct, frozen=True, tag=True):
    """A text: the type of an argument, or itself for a parameter that is a constant."""

    text: str

    def make(self, is_constexpr: bool, kept: Kept = ()) -> Any:
        return self.text if is_constexpr else value_of_type(self.text)


class Tensor(msgspec.Struct, frozen=True, tag=True):
    """What the JIT asks of a tensor."""

    dtype: str
    """PyTorch's name: "float32"."""
    beyond_16: int
    """How many bytes its address is beyond a multiple of 16."""
    storage_bytes: int

    def make(self, is_constexpr: bool, kept: Kept = ()) -> torch.Tensor:
        return meta_tensor(getattr(torch, self.dtype), self.beyond_16, self.storage_bytes)


class KeptTensor(msgspec.Struct, frozen=True, tag=True):
    """A tensor that keeps its values, by its place among those that are kept."""

    place: int

    def make(self, is_constexpr: bool, kept: Kept = ()) -> torch.Tensor:
        return kept[self.place]


class Reinterpreted(msgspec.Struct, frozen=True, tag=True):
    """A kept tensor that a kernel sees as of another dtype: `triton.reinterpret`."""

    tensor: "Described"
    dtype: str
    """Triton's name, or PyTorch's with its module."""

    def make(self, is_constexpr: bool, kept: Kept = ()) -> TensorWrapper:
        of_triton = getattr(triton.language, self.dtype, None)
        dtype = of_triton or getattr(torch, self.dtype.removeprefix("torch."))
        return TensorWrapper(self.tensor.make(False, kept), dtype)


class Descriptor(msgspec.Struct, frozen=True, tag=True):
    """A tensor descriptor."""

    base: "Described"
    shape: list[int]
    strides: list[int]
    block: list[int]
    gluon_layout: str = ""
    """The block's layout in shared memory, for a descriptor of Gluon's: as Python writes an
    NVMMASharedLayout."""

    def make(self, is_constexpr: bool, kept: Kept = ()) -> Any:
        parts = self.base.make(False, kept), self.shape, self.strides, self.block
        if not self.gluon_layout:
            return TensorDescriptor(*parts)
        from triton.experimental.gluon.language import NVMMASharedLayout
        from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as OfGluon

        layout = eval(self.gluon_layout, {NVMMASharedLayout.__name__: NVMMASharedLayout})
        return OfGluon(*parts, layout)


class Items(msgspec.Struct, frozen=True, tag=True):
    """A tuple, with names or without, or a list, which a kernel takes as a constant alone."""

    items: "list[Described]"
    is_list: bool = False
    named: str = ""
    """The name of its class, for a tuple with names."""
    fields: tuple[str, ...] = ()

    def make(self, is_constexpr: bool, kept: Kept = ()) -> Any:
        items = tuple(item.make(is_constexpr, kept) for item in self.items)
        return namedtuple(self.named, self.fields)(*items) if self.named else items


class Function(msgspec.Struct, frozen=True, tag=True):
    """A jitted function."""

    source: Source

    def make(self, is_constexpr: bool, kept: Kept = ()) -> KernelInterface:
        return self.source.load()


class Constant(msgspec.Struct, frozen=True, tag=True):
    """A number, a type or the like, as the Python that `constant_text` writes for it."""

    python: str

    def make(self, is_constexpr: bool, kept: Kept = ()) -> Any:
        return eval(self.python)


Described = Text | Tensor | KeptTensor | Reinterpreted | Descriptor | Items | Function | Constant
"""An argument. `make` gives it again, or one that the JIT treats in the same way.

make(is_constexpr, kept): whether the parameter is a constant, for which a text is itself and not a
type; and the tensors that `describe` has kept.
"""


def is_gluon_descriptor(value: AnyValue) -> bool:
    """Whether an argument is one of Gluon's tensor descriptors; Gluon is not imported for it."""
    return type(value).__module__ == "triton.experimental.gluon.nvidia.hopper"


def describe(value: AnyValue, kept: list[torch.Tensor] | None = None) -> Described:
    """An argument as a record. Raises CourseError naming what a kernel cannot be given.

    kept: where to put the tensors that are to keep their values; by default none is to.
    """
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, torch.Tensor):
        return _tensor(value, kept)
    in_gluon = is_gluon_descriptor(value)
    if in_gluon or isinstance(value, TensorDescriptor):
        lengths = [*value.shape], [*value.strides], [*value.block_shape]
        layout = repr(value.layout) if in_gluon else ""
        return Descriptor(describe(value.base, kept), *lengths, layout)
    if isinstance(value, (tuple, list)):  # a torch.Size too
        items, fields = [describe(item, kept) for item in value], getattr(value, "_fields", ())
        named = type(value).__name__ if fields else ""
        return Items(items, isinstance(value, list), named, fields)
    if isinstance(value, TensorWrapper):
        if kept is not None:
            return Reinterpreted(describe(value.base, kept), str(value.dtype))
        return _as_the_jit_sees(value.base, DTYPES.get(str(value.dtype), value.dtype))
    if plain_function(value) is not None:
        return Function(source_of(value))
    text = constant_text(value)
    if text is None:
        raise CourseError(
            f"An argument of type {type(value).__name__} cannot be described to the compiler: give "
            "tensors, numbers, tuples of them, or types such as '*fp32:16'."
        )
    return Constant(text)


def python_of(argument: Described) -> str:
    """The Python of an argument, in a file that has Triton and the kept tensors as `tensor`.

    Raises CourseError for a jitted function.
    """
    match argument:
        case Text(text):
            return repr(text)
        case KeptTensor(place):
            return f"tensor[{place}]"
        case Reinterpreted(tensor, dtype):
            of_triton = f"triton.language.dtype({dtype!r})"
            return f"triton.reinterpret({python_of(tensor)}, {of_triton})"
        case Descriptor(base, shape, strides, block, layout):
            parts = ", ".join([python_of(base), str(shape), str(strides), str(block)])
            if not layout:
                home = "triton.tools.tensor_descriptor"
                return f"__import__({home!r}, fromlist=['']).TensorDescriptor({parts})"
            home = "triton.experimental.gluon"
            given = f"__import__('{home}.language', fromlist=['']).{layout}"
            of_gluon = f"__import__('{home}.nvidia.hopper', fromlist=['']).TensorDescriptor"
            return f"{of_gluon}({parts}, {given})"
        case Items(items, _, named, fields):
            texts = "".join(f"{python_of(item)}, " for item in items)
            made = f"__import__('collections').namedtuple({named!r}, {fields})" if named else ""
            return f"{made}({texts})"
        case Constant(python):
            return python
    raise CourseError("A function among the arguments of a launch has no place in its file.")


def _tensor(tensor: torch.Tensor, kept: list[torch.Tensor] | None) -> Described:
    """Raises CourseError for a sparse or nested tensor, and for a type that Triton lacks."""
    if tensor.is_nested or tensor.layout is not torch.strided:
        kind = "nested" if tensor.is_nested else "sparse"
        raise CourseError(
            f"A kernel cannot be given a {kind} tensor: pass the dense tensors that it is made of."
        )
    if tensor.dtype not in DTYPES.values():
        raise CourseError(f"A kernel cannot be given a tensor of {tensor.dtype}.")
    if kept is None:
        return _as_the_jit_sees(tensor, tensor.dtype)
    tensor = tensor.detach()
    views = [_view(other) for other in kept]
    if _view(tensor) not in views:
        kept.append(tensor)
        views.append(_view(tensor))
    return KeptTensor(views.index(_view(tensor)))


def _view(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What two tensors that are the same memory have in common."""
    # By the storage and not by its address: one on the meta device has none.
    storage, start = tensor.untyped_storage()._cdata, tensor.storage_offset()
    return storage, start, tensor.shape, tensor.stride(), tensor.dtype


def _as_the_jit_sees(tensor: torch.Tensor, dtype: torch.dtype) -> Tensor:
    name, storage = str(dtype).removeprefix("torch."), tensor.untyped_storage()
    return Tensor(name, tensor.data_ptr() % 16, storage.size())


@dataclass(frozen=True)
class Request:
    """A kernel with its arguments, so that it can be compiled again."""

    kernel: KernelReference
    args: list[Described]
    kwargs: dict[str, Described]
    literal: bool = False
    """Whether texts for constants are Python literals if they can be, as on the command line."""

    @classmethod
    def of(cls, kernel: KernelReference, args: Sequence[AnyValue], kwargs: AnyValues) -> "Request":
        """Raises CourseError naming what a kernel cannot be given."""
        named = {name: describe(value) for name, value in kwargs.items()}
        return cls(kernel, [*map(describe, args)], named)

    def with_options(self, **options: int) -> "Request":
        """The same kernel with other options of the compiler."""
        constants = {name: Constant(repr(value)) for name, value in options.items()}
        return replace(self, kwargs={**self.kwargs, **constants})

    def by_name(self, names: list[str]) -> dict[str, Described]:
        """The arguments by the names of the kernel's parameters."""
        return dict(zip(names, self.args, strict=False)) | self.kwargs
