"""operator: attention as an operator of PyTorch's, torch.ops.course.fmha, over exported kernels."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
import triton

from course.compilers import compiler_command
from course.errors import CourseError
from course.gpus.limits import Target
from course.places import refuse_other_kernels

from .api import export, link
from .attention import GRID, attention_variant
from .c_compiler import FLAGS, include_folder, run_compiler
from .driver import Driver, DriverLibrary
from .options import nvidia_target
from .result import Linked
from .sealing import cached_library

FOLDER = Path(__file__).parent / "operator_code"
CXX_FLAGS = ("-std=c++17", *FLAGS[1:], "-fvisibility=hidden")
OLDEST_TORCH = "0x020a000000000000"
"""2.10, as PyTorch's headers write a version: they then offer nothing that it lacks, and the
library runs there too."""
DTYPES = {"fp16": ("Half", "float16"), "bf16": ("BFloat16", "bfloat16")}
"""Triton's name -> the names in PyTorch's C++ and in Python."""
HEAD_DIMS = (16, 32, 64, 128, 256)


class Kernels(NamedTuple):
    """Which kernels an operator has."""

    head_dims: tuple[int, ...]
    dtypes: tuple[str, ...]
    target: Target


_loaded: list[Kernels] = []
"""What this process has loaded: an operator can be registered only once."""


def operator(
    head_dims: Sequence[int] = (64, 128),
    dtypes: Sequence[str] = ("fp16", "bf16"),
    target: str | None = None,
    driver: DriverLibrary | None = None,
) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """Export attention, build the operator's library and load it:
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
    seconds per kernel, and leaves the library in the course's cache.

    Raises CourseError if it cannot be built, or if this process has loaded another one.
    """
    kernels = _checked(head_dims, dtypes, target)
    if _loaded not in ([], [kernels]):
        raise CourseError(
            "This process has loaded the operator with other kernels: start a new process."
        )
    if driver is not None:
        Driver(driver)
    if not _loaded:
        library = build_operator(head_dims, dtypes, target)
        try:
            torch.ops.load_library(library)
        except OSError as error:
            raise CourseError(f"{library} could not be loaded: {error}.") from error
        torch.library.register_fake("course::fmha", _fake)
        _loaded.append(kernels)
    fmha: Callable[..., tuple[torch.Tensor, torch.Tensor]] = torch.ops.course.fmha
    return fmha


def _fake(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The shapes and dtypes of a call's results, for what traces it without any data."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        _check_dimensions(name, x)
    return q.new_empty(q.shape), q.new_empty(q.shape[:3], dtype=torch.float32)


def _check_dimensions(name: str, x: torch.Tensor) -> None:
    torch._check(x.dim() == 4, lambda: f"fmha: {name} has {x.dim()} dimensions, and must have 4.")


def build_operator(
    head_dims: Sequence[int] = (64, 128),
    dtypes: Sequence[str] = ("fp16", "bf16"),
    target: str | None = None,
) -> Path:
    """The operator's library, built if the cache has none of the same parts. It loads with any
    PyTorch from 2.10 on.

    Raises CourseError if there is no compiler for C and C++, and for a dtype or head dimension that
    the kernel lacks.
    """
    kernels = _checked(head_dims, dtypes, target)
    refuse_other_kernels()
    cc, cxx = compiler_command(), compiler_command("C++")
    place = Path("operator") / _hash(kernels, cc, cxx) / "fmha.so"
    return cached_library(place, lambda library: _build(library, kernels, cc, cxx))


def _checked(head_dims: Sequence[int], dtypes: Sequence[str], target: str | None) -> Kernels:
    """Raises CourseError for what there is no attention for."""
    gpu = nvidia_target(target)
    for name, given in (("head_dims", head_dims), ("dtypes", dtypes)):
        if not isinstance(given, (list, tuple)):
            raise CourseError(f"{name} is {given!r:.60}, and must be a list or a tuple.")
    if not head_dims or not dtypes:
        raise CourseError(
            "There is nothing to build: give at least one head dimension and one dtype."
        )
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise CourseError(f"There is no attention for {dtype!r}: there is {', '.join(DTYPES)}.")
    for head_dim in head_dims:
        if head_dim not in HEAD_DIMS:
            raise CourseError(f"head_dim is {head_dim}, and must be 16, 32, 64, 128 or 256.")
    return Kernels(tuple(head_dims), tuple(dtypes), gpu)


def _hash(kernels: Kernels, *commands: list[str]) -> str:
    """A hash of all that goes into the library."""
    import kernels as kernels_package

    folders = (FOLDER, FOLDER.parent, FOLDER.parent / "c")
    files = sorted(path for folder in folders for path in folder.iterdir() if path.is_file())
    files += sorted(Path(kernels_package.__path__[0]).rglob("*.py"))
    texts = [path.read_bytes() for path in files]
    versions = repr((kernels, commands, triton.__version__, torch.__version__))
    return hashlib.sha256(b"\0".join([*texts, versions.encode()])).hexdigest()[:16]


def _build(library: Path, kernels: Kernels, cc: list[str], cxx: list[str]) -> None:
    folder = library.parent
    linked = [_export(folder, kernels.head_dims, dtype, kernels.target) for dtype in kernels.dtypes]
    (folder / "variants.h").write_text(_variants(kernels.head_dims, kernels.dtypes))
    includes = ["-I", str(folder), "-I", str(FOLDER), "-isystem", str(include_folder())]
    objects = []
    for source in (FOLDER / "driver.c", *(path for code in linked for path in code.sources)):
        objects.append(str(folder / f"{source.name}.o"))
        run_compiler([*cc, *FLAGS, *includes, "-c", "-o", objects[-1], str(source)])
    torch_folder = Path(torch.__file__).parent
    run_compiler(
        [
            *cxx, *CXX_FLAGS, f"-DTORCH_TARGET_VERSION={OLDEST_TORCH}", *includes,
            "-isystem", str(torch_folder / "include"),
            "-shared", "-o", str(library), str(FOLDER / "fmha.cpp"), *objects,
            # Its own functions first, whatever else has their names; and no symbol may stay open.
            "-Wl,-Bsymbolic", "-Wl,-z,defs", f"-L{torch_folder / 'lib'}", "-ltorch_cpu", "-ldl",
        ]
    )  # fmt: skip


def _export(folder: Path, head_dims: Sequence[int], dtype: str, target: Target) -> Linked:
    """For each head dimension two algorithms, without and with a causal mask, in this order:
    fmha.cpp counts on it, and checks what the signature promises."""
    from kernels.attention.export import _fwd_kernel
    from kernels.attention.settings import settings_for

    shared_kb = target.shared_bytes // 1024
    flags = [("False", "False", "True", causal) for causal in ("False", "True")]
    variants = [
        attention_variant(dtype, head_dim, settings_for(head_dim, shared_kb), each)
        for head_dim in head_dims
        for each in flags
    ]
    name = f"course_fmha_{dtype}"
    exported = export(_fwd_kernel, variants, GRID, name, folder / name, target=target.name)
    return link(exported, folder / name)


def _variants(head_dims: Sequence[int], dtypes: Sequence[str]) -> str:
    """variants.h: which kernels there are, for fmha.cpp."""
    names = [f"course_fmha_{dtype}" for dtype in dtypes]
    includes = "".join(f'#include "{name}.h"\n' for name in names)
    rows = [
        f"{{ScalarType::{DTYPES[dtype][0]}, {head_dim}, {2 * number}, course_fmha_{dtype}}}"
        for dtype in dtypes
        for number, head_dim in enumerate(head_dims)
    ]
    loads = " ".join(f'call("load_{name}", load_{name}());' for name in names)
    return f"""\
{includes}#define FMHA_FIRST {names[0]}
#define FMHA_VARIANTS {", ".join(rows)}
#define FMHA_LOAD(call) {loads}
#define FMHA_DTYPES "{" and ".join(DTYPES[dtype][1] for dtype in dtypes)}"
"""
