"""operator: attention as an operator of PyTorch's, torch.ops.course.fmha, over exported kernels."""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
import triton
from torch import Tensor

from course.compilers import compiler_command
from course.errors import CourseError
from course.gpus.limits import MOST_GRID, Target
from course.places import refuse_other_kernels

from .abi import DTYPES, ROUNDED
from .api import build, export, link, load
from .attention import GRID, attention_variant
from .driver import Driver, DriverLibrary
from .loaded import LoadedFunction
from .options import nvidia_target
from .sealing import cached_library

HEAD_DIMS = (16, 32, 64, 128, 256)
SUPPORTED = ("fp16", "bf16")
MOST_LENGTH = 2**30
"""Beyond, the kernel's lengths of 32 bits could overflow."""
VECTOR_ELEMENTS = 16
"""Rows begin at multiples of so many: the kernels load 16 bytes at once."""


@dataclass(frozen=True)
class Kernels:
    """Which kernels an operator has."""

    head_dims: tuple[int, ...]
    dtypes: tuple[str, ...]
    target: Target

    def checked(self) -> "Kernels":
        """These kernels. Raises CourseError for a dtype or head dimension that attention lacks."""
        if not self.head_dims or not self.dtypes:
            raise CourseError(
                "There is nothing to build: give at least one head dimension and one dtype."
            )
        for dtype in set(self.dtypes) - set(SUPPORTED):
            there = ", ".join(SUPPORTED)
            raise CourseError(f"There is no attention for {dtype!r}: there is {there}.")
        for head_dim in set(self.head_dims) - set(HEAD_DIMS):
            raise CourseError(f"head_dim is {head_dim}, and must be 16, 32, 64, 128 or 256.")
        return self


@dataclass
class _Registered:
    """What torch.ops.course.fmha launches in this process: it can be registered only once."""

    kernels: Kernels
    libraries: dict[torch.dtype, Path]
    driver: DriverLibrary | None = None
    functions: dict[torch.dtype, LoadedFunction] = field(default_factory=dict)

    def function(self, dtype: torch.dtype) -> LoadedFunction:
        """The function for a dtype, from a library that is loaded when it is first needed."""
        if dtype not in self.functions:
            library = load(self.libraries[dtype], self.driver)
            self.functions[dtype] = next(f for f in library.functions.values() if f.algorithms)
        return self.functions[dtype]


_registered: list[_Registered] = []


def operator(
    head_dims: Sequence[int] = (64, 128),
    dtypes: Sequence[str] = ("fp16", "bf16"),
    target: str | None = None,
    driver: DriverLibrary | None = None,
) -> Callable[..., tuple[Tensor, Tensor]]:
    """Export attention and register it with PyTorch:
    torch.ops.course.fmha(q, k, v, scale, causal) -> (out, lse).

    q: [batch, heads, M, head_dim]; k, v: [batch, heads, N, head_dim], on one CUDA device, with a
        last stride of 1, the other strides multiples of 16 elements and an address that is a
        multiple of 16. scale: of the scores, positive.
    causal: query m sees the keys n <= m + N - M.
    out: as q, contiguous; lse: float32 [batch, heads, M].
    head_dims, dtypes ("fp16", "bf16"): what there are kernels for.
    target: as "sm_90"; None: this machine's GPU, or sm_90.
    driver: `aot.fake_driver` records the launches of tensors on the CPU, and computes nothing.

    torch.compile and torch.export take it. No gradient flows through it. The first call takes some
    seconds per kernel, and leaves the libraries in the course's cache.

    Raises CourseError if it cannot be built, or if this process has registered another one.
    """
    kernels = Kernels(tuple(head_dims), tuple(dtypes), nvidia_target(target)).checked()
    if _registered and _registered[0].kernels != kernels:
        raise CourseError(
            "This process has loaded the operator with other kernels: start a new process."
        )
    if driver is not None:
        Driver(driver)
    if not _registered:
        libraries = {DTYPES[dtype]: _library(kernels, dtype) for dtype in kernels.dtypes}
        torch.library.custom_op("course::fmha", _fmha, mutates_args=()).register_fake(_fake)
        _registered.append(_Registered(kernels, libraries))
    _registered[0].driver = driver or _registered[0].driver
    fmha: Callable[..., tuple[Tensor, Tensor]] = torch.ops.course.fmha
    return fmha


def _library(kernels: Kernels, dtype: str) -> Path:
    """The library for a dtype, built if the cache has none of the same parts.

    For each head dimension it has two algorithms, without and with a causal mask, in this order.
    """
    refuse_other_kernels()
    from kernels.attention.export import _fwd_kernel
    from kernels.attention.settings import settings_for

    def written(library: Path) -> None:
        shared_kb = kernels.target.shared_bytes // 1024
        variants = [
            attention_variant(
                dtype, dim, settings_for(dim, shared_kb), ("False", "False", "True", causal)
            )
            for dim in kernels.head_dims
            for causal in ("False", "True")
        ]
        path = library.with_name(f"course_fmha_{dtype}")
        target = kernels.target.name
        exported = export(_fwd_kernel, variants, GRID, path.name, path, target=target)
        build(link(exported, path), library)

    place = Path("operator") / _hash(kernels, compiler_command()) / f"{dtype}.so"
    return cached_library(place, written)


def _hash(kernels: Kernels, compiler: list[str]) -> str:
    """A hash of all that goes into the libraries."""
    import kernels as kernels_package

    folders = (Path(__file__).parent, Path(kernels_package.__path__[0]))
    files = sorted(path for folder in folders for path in folder.rglob("*.*"))
    texts = [path.read_bytes() for path in files if path.suffix in (".py", ".c", ".h")]
    versions = repr((kernels, compiler, triton.__version__))
    return hashlib.sha256(b"\0".join([*texts, versions.encode()])).hexdigest()[:16]


def _fmha(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> tuple[Tensor, Tensor]:
    """Launch the kernel for these inputs on PyTorch's current stream."""
    registered = _registered[0]
    if problem := next(_problems(registered, {"q": q, "k": k, "v": v}, scale), ""):
        raise CourseError(f"fmha: {problem}")
    out, lse = _results(q)
    unused = lse.new_empty(0)
    batch, heads, queries, head_dim = q.shape
    strides = [step for x in (q, k, v, out) for step in _steps(x)]
    registered.function(q.dtype)(
        q, k, v, out, lse, unused, scale, batch, heads, *strides,
        queries, k.shape[2], queries, head_dim,
        algo=2 * registered.kernels.head_dims.index(head_dim) + causal,
    )  # fmt: skip
    return out, lse


def _fake(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> tuple[Tensor, Tensor]:
    """The shapes and dtypes of a call's results, for what traces it without any data."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4:
            raise CourseError(f"fmha: {_dimensions_problem(name, x)}")
    return _results(q)


def _results(q: Tensor) -> tuple[Tensor, Tensor]:
    return q.new_empty(q.shape), q.new_empty(q.shape[:3], dtype=torch.float32)


def _steps(x: Tensor) -> list[int]:
    """How far one index of an axis is from the next, but for the last axis; 0 where there is no
    next, and the stride may be any number."""
    sizes_and_strides = zip(x.shape[:3], x.stride()[:3], strict=True)
    return [0 if size == 1 else stride for size, stride in sizes_and_strides]


def _problems(registered: _Registered, inputs: dict[str, Tensor], scale: float) -> Iterator[str]:
    """What the kernels do not take of a call, each as a sentence that begins with its subject."""
    for name, x in inputs.items():
        yield from _own_problems(name, x, "cpu" if registered.driver else "cuda")
    for name, other, axes in (("q", "k", (0, 1, 3)), ("k", "v", range(4))):
        if inputs[name].dtype != inputs[other].dtype:
            yield f"{name} and {other} have different dtypes."
        for axis in axes:
            here, there = inputs[name].shape[axis], inputs[other].shape[axis]
            if here != there:
                yield (
                    f"{name} has a size of {here} along dimension {axis} and {other} of {there}; "
                    "both must have the same."
                )
    q, kernels = inputs["q"], registered.kernels
    if q.dtype not in registered.libraries:
        names = " and ".join(str(dtype).removeprefix("torch.") for dtype in registered.libraries)
        yield f"q has a dtype that this build has no kernel for; it was built for {names}."
    if q.shape[3] not in kernels.head_dims:
        built = " and ".join(map(str, kernels.head_dims))
        yield f"q has a head_dim of {q.shape[3]}, and this build has kernels for {built}."
    batch, heads = q.shape[:2]
    if max(batch, heads) > MOST_GRID[1]:
        most = f"at most {MOST_GRID[1]} of each are possible"
        yield f"q has {batch} batches of {heads} heads, and {most}."
    if not 0 < ROUNDED["fp32"](scale) < math.inf:  # what the kernel is handed
        yield f"scale is {scale:g}, and must be positive and finite."


def _own_problems(name: str, x: Tensor, device: str) -> Iterator[str]:
    """What must hold of each input by itself, and does not."""
    if x.device.type != device:
        where = "on the CPU" if x.is_cpu else "on no CUDA device"
        yield f"{name} is {where}, and must be on a CUDA device: call .cuda()."
    if x.dim() != 4:
        yield _dimensions_problem(name, x)
    if x.stride(3) != 1:
        yield f"{name} has a last stride of {x.stride(3)}, and must have 1: call .contiguous()."
    for step in _steps(x):
        if step % VECTOR_ELEMENTS:
            multiples = f"must have multiples of {VECTOR_ELEMENTS}"
            yield f"{name} has a stride of {step}, and {multiples}: call .contiguous()."
    if x.data_ptr() % 16:
        yield f"{name} begins at an address that is no multiple of 16: call .clone()."
    if x.shape[2] > MOST_LENGTH:
        yield f"{name} has a length of {x.shape[2]}, and at most {MOST_LENGTH} is possible."


def _dimensions_problem(name: str, x: Tensor) -> str:
    return f"{name} has {x.dim()} dimensions, and must have 4: batch, heads, length, head_dim."
