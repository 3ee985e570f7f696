"""operator: attention as an operator of PyTorch's, torch.ops.course.fmha, over exported kernels."""

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton

from course.cache import cache_folder, private_folder
from course.errors import CourseError
from course.files import write_together
from course.gpus.limits import Target

from . import building
from .driver import Driver, DriverLibrary
from .exporting import Variant, export, nvidia_target
from .linking import Linked, link
from .sealing import intact, sealed

FOLDER = Path(__file__).parent / "operator_code"
CXX_COMPILERS = ("g++", "c++", "clang++")
CXX_FLAGS = (
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-fvisibility=hidden",
    "-pthread",
    "-Wall",
    "-Wextra",
    "-Werror",
)
OLDEST_TORCH = "0x020a000000000000"
"""2.10, as PyTorch's headers write a version: they then offer nothing that it lacks, and the library runs there too."""
DTYPES = {"fp16": ("Half", "float16"), "bf16": ("BFloat16", "bfloat16")}
"""By Triton's name: the one in PyTorch's C++, and the one in Python."""


class _Loaded:
    """What this process has loaded: an operator can be registered only once."""

    asked: tuple[Any, ...] | None = None


def operator(
    head_dims: Sequence[int] = (64, 128),
    dtypes: Sequence[str] = ("fp16", "bf16"),
    target: str | None = None,
    driver: DriverLibrary | None = None,
) -> Any:
    """Export attention, build the operator's library and load it: torch.ops.course.fmha(q, k, v, scale, causal) -> (out, lse).

    q: [batch, heads, M, head_dim]; k, v: [batch, heads, N, head_dim], on one CUDA device, with a last stride of 1, the other
        strides multiples of 16 elements and an address that is a multiple of 16. scale: of the scores, positive.
    causal: query m sees the keys n <= m + N - M. out: as q, contiguous; lse: float32 [batch, heads, M].
    head_dims, dtypes ("fp16", "bf16"): what there are kernels for. target: as "sm_90"; None: this machine's GPU, or sm_90.
    driver: `course.aot.fake_driver` records the launches of tensors on the CPU, and computes nothing.

    torch.compile and torch.export take it. No gradient flows through it. The first call takes some seconds a kernel, and
    leaves the library in the course's cache.

    Raises CourseError where it cannot be built, or this process has loaded another one.
    """
    found_target = nvidia_target(target)
    asked = (tuple(head_dims), tuple(dtypes), found_target.name)
    if _Loaded.asked not in (None, asked):
        raise CourseError(
            "This process has loaded the operator with other kernels: start a new process."
        )
    if driver is not None:
        Driver(driver)
    if _Loaded.asked is None:
        library = build_operator(*asked)
        try:
            torch.ops.load_library(library)
        except OSError as error:
            raise CourseError(f"{library} could not be loaded: {error}.") from error
        torch.library.register_fake("course::fmha", _fake)
        _Loaded.asked = asked
    return torch.ops.course.fmha


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
    """The operator's library, built if the cache has none of the same parts. It loads with any PyTorch from 2.10 on.

    Raises CourseError where there is no compiler for C and C++, and for a dtype or head dimension that the kernel lacks.
    """
    found_target = nvidia_target(target)
    if not head_dims or not dtypes:
        raise CourseError(
            "There is nothing to build: give at least one head dimension and one dtype."
        )
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise CourseError(f"There is no attention for {dtype!r}: there is {', '.join(DTYPES)}.")
    for head_dim in head_dims:
        if head_dim not in (16, 32, 64, 128, 256):
            raise CourseError(f"head_dim is {head_dim}, and must be 16, 32, 64, 128 or 256.")
    commands = (building.compiler(), cxx_compiler())
    name = _hash(head_dims, dtypes, found_target.name, commands)
    library = private_folder(cache_folder() / "operator_code") / name / "fmha.so"
    if not library.is_file() or not intact(library.read_bytes()):
        with tempfile.TemporaryDirectory(prefix="course-operator-") as folder:
            built = _build(Path(folder), head_dims, dtypes, found_target)
            write_together({library: sealed(built.read_bytes())})
    return library


def _hash(*asked: Any) -> str:
    """Of all that goes into the library."""
    import kernels

    texts = [
        *(
            each.read_bytes()
            for folder in (FOLDER, FOLDER.parent)
            for each in sorted(folder.iterdir())
            if each.is_file()
        ),
        *(each.read_bytes() for each in sorted(Path(kernels.__path__[0]).glob("*.py"))),
        repr((asked, triton.__version__, torch.__version__)).encode(),
    ]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


def cxx_compiler() -> list[str]:
    """The C++ compiler's command: $CXX, or the first that is on PATH. Raises CourseError where there is none."""
    command = building.split_command("CXX")
    if command and shutil.which(command[0]) is None:
        raise CourseError(
            f"$CXX names {command[0]}, which is not found: unset it, or set it to a C++ compiler."
        )
    found = command or [each for each in CXX_COMPILERS if shutil.which(each)][:1]
    if not found:
        raise CourseError(
            "There is no C++ compiler (g++, c++ or clang++): install one, as with `apt-get install g++`, or set $CXX."
        )
    return found


def _build(folder: Path, head_dims: Sequence[int], dtypes: Sequence[str], target: Target) -> Path:
    linked = [_export(folder, head_dims, dtype, target) for dtype in dtypes]
    (folder / "variants.h").write_text(_variants(head_dims, dtypes))
    objects = []
    for source in (FOLDER / "driver.c", *(each for one in linked for each in one.sources)):
        objects.append(folder / f"{source.name}.o")
        building.run_compiler(
            [
                *building.compiler(),
                *building.FLAGS,
                *_includes(folder),
                "-c",
                "-o",
                str(objects[-1]),
                str(source),
            ]
        )
    built = folder / "fmha.so"
    torch_folder = Path(torch.__file__).parent
    building.run_compiler(
        [
            *cxx_compiler(), *CXX_FLAGS, f"-DTORCH_TARGET_VERSION={OLDEST_TORCH}", *_includes(folder),
            "-isystem", str(torch_folder / "include"),
            "-shared", "-o", str(built), str(FOLDER / "fmha.cpp"), *map(str, objects),
            # Its own functions first, whatever else has their names; and no symbol may stay open.
            "-Wl,-Bsymbolic", "-Wl,-z,defs", f"-L{torch_folder / 'lib'}", "-ltorch_cpu", "-ldl",
        ]
    )  # fmt: skip
    return built


def _includes(folder: Path) -> list[str]:
    return ["-I", str(folder), "-I", str(FOLDER), "-isystem", str(building.include_folder())]


def _export(folder: Path, head_dims: Sequence[int], dtype: str, target: Target) -> Linked:
    """Per head dimension two algorithms, without and with a causal mask, in this order: fmha.cpp counts on it."""
    from kernels.flash_attention_export import _fwd_kernel

    variant = partial(_variant, dtype, shared_kb=target.shared_bytes // 1024)
    variants = [variant(head_dim, causal) for head_dim in head_dims for causal in (False, True)]
    name = f"course_fmha_{dtype}"
    # A grid may have 65,535 programs along y and along z: more heads than along y alone.
    exported = export(
        _fwd_kernel,
        variants,
        "cdiv(seqlen_q, BLOCK_M), nheads, batch",
        name,
        folder / name,
        target=target.name,
    )
    return link(exported, folder / name)


def _variant(dtype: str, head_dim: int, causal: bool, shared_kb: int) -> Variant:
    """Strides have 64 bits, since a tensor may have more than 2**31 elements. The operator checks what is promised here."""
    from kernels.flash_attention_settings import settings_for

    settings = settings_for(head_dim, shared_kb)
    parts = [
        *[f"*{dtype}:16"] * 4, "*fp32:16", "*fp32", "fp32",  # Q, K, V, Out; Lse; TMP; softmax_scale
        "i32", "i32", *["i64:16"] * 12,  # batch, nheads; the strides
        "i32", "i32", "i32", "i32",  # seqlen_q, seqlen_k, seqlen_q_rounded, head_dim
        "False", "False", "True", str(causal),  # EVEN_M, EVEN_N, EVEN_HEADDIM; IS_CAUSAL
        str(head_dim), str(settings.block_m), str(settings.block_n),
    ]  # fmt: skip
    return Variant(", ".join(parts), settings.num_warps, settings.num_stages)


def _variants(head_dims: Sequence[int], dtypes: Sequence[str]) -> str:
    """variants.h: which kernels there are, for fmha.cpp."""
    rows = [
        f"{{ScalarType::{DTYPES[dtype][0]}, {head_dim}, {2 * number}, course_fmha_{dtype}}}"
        for dtype in dtypes
        for number, head_dim in enumerate(head_dims)
    ]
    loads = " ".join(
        f'call("load_course_fmha_{dtype}", load_course_fmha_{dtype}());' for dtype in dtypes
    )
    return "".join(
        [
            *(f'#include "course_fmha_{dtype}.h"\n' for dtype in dtypes),
            f"#define FMHA_FIRST course_fmha_{dtypes[0]}\n",
            f"#define FMHA_VARIANTS {', '.join(rows)}\n",
            f"#define FMHA_LOAD(call) {loads}\n",
            f'#define FMHA_DTYPES "{" and ".join(DTYPES[dtype][1] for dtype in dtypes)}"\n',
        ]
    )
