"""sample: a complete program in C, and one in C++, around a kernel of the course."""

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from course.errors import CourseError
from course.files import write_together
from course.gpus.limits import Target
from course.places import refuse_other_kernels
from course.type_names import Kernel

from .api import export, link
from .attention import attention_variant
from .c_compiler import include_folder
from .fake_driver import CAPABILITIES
from .options import Variant, nvidia_target
from .output_files import check_out

FOLDER = Path(__file__).parent / "examples"
SHARED = ("Makefile", "gpu.h", "gpu.hpp")
OWN = ("main.c", "main.cpp", "problem.h")
SETTINGS = "settings.mk"
SETTINGS_MARK = "# Written by course aot sample."


@dataclass(frozen=True)
class Sample:
    """A folder with a kernel's C, programs that launch it, and a Makefile. Prints what to type."""

    name: str
    folder: Path
    target: str

    def __str__(self) -> str:
        make = f"make -C {shlex.quote(str(self.folder))} run"
        fake = f'{make} CUDA_LIB="$(course aot fake-driver)"'
        what = f"{self.name} for {self.target}, in C (main.c) and in C++ (main.cpp)"
        return (
            f"{self.folder}: {what}\n"
            f"    {make}    builds both and runs them\n"
            f"    {fake}    without a GPU: launches, and computes nothing"
        )

    __repr__ = __str__


@dataclass(frozen=True)
class Spec:
    """What a sample exports."""

    kernel: Kernel
    variants: tuple[Variant, ...]
    grid: str
    defines: dict[str, int] = field(default_factory=dict)
    """The kernel's constants that the programs must know."""


def sample(
    name: str, folder: str | Path, target: str | None = "sm_90", force: bool = False
) -> Sample:
    """Export and link a kernel of the course into a folder, with a program in C, one in C++ and a
    Makefile. Needs no GPU.

    name: vector_add, softmax or attention. target: as "sm_90"; None: this machine's GPU.
    force: write over programs in the folder that were changed.

    The programs make their inputs, launch on the first GPU and compare with plain loops in double.
    They return 0, or 1 after an error and 2 if the results do not agree. No Python is in them.

    Raises CourseError for another name, and if the folder has files of these names that were
    changed.
    """
    if name not in SPECS:
        raise CourseError(f"There is no sample {name!r}: the samples are {', '.join(SPECS)}.")
    path = check_out(folder)
    gpu = nvidia_target(target)
    files = {path / file: (FOLDER / file).read_bytes() for file in SHARED}
    files |= {path / file: (FOLDER / name / file).read_bytes() for file in OWN}
    if not force:
        _refuse_changed(files, path / SETTINGS)
    refuse_other_kernels()
    spec = SPECS[name](gpu)
    out = path / "variants" / name
    exported = export(
        spec.kernel, spec.variants, spec.grid, name, out, target=gpu.name, force=force
    )
    linked = link(exported, path / name, force=force)
    sources = [os.path.relpath(source, path) for source in linked.sources]
    write_together({**files, path / SETTINGS: _settings(name, sources, spec.defines, gpu)})
    return Sample(name, path, gpu.name)


def _refuse_changed(files: dict[Path, bytes], settings: Path) -> None:
    """Raise CourseError if a file was changed: a learner's own work is never written over."""
    changed = [
        path
        for path, content in files.items()
        if path.exists() and (not path.is_file() or path.read_bytes() != content)
    ]
    if settings.exists() and not settings.read_text(errors="replace").startswith(SETTINGS_MARK):
        changed.append(settings)
    if changed:
        raise CourseError(
            f"{changed[0]} exists and is not what this sample has: "
            "name another folder, or give --force."
        )


def _settings(name: str, sources: list[str], defines: dict[str, int], target: Target) -> str:
    """What the Makefile must be told, and the fake driver: the device that the code is for."""
    return (
        f"{SETTINGS_MARK} To change it, write the sample again.\n"
        f"NAME := {name}\n"
        f"SOURCES := {' '.join(sources)}\n"
        f"DEFINES := {' '.join(f'-D{key}={value}' for key, value in defines.items())}\n"
        f"CUDA_INCLUDE ?= {include_folder()}\n"
        f"export {CAPABILITIES} ?= {target.capability}\n"
    )


def _vector_add(target: Target) -> Spec:
    from kernels.vector_add import add_kernel

    wide, narrow = "*fp32:16, *fp32:16, *fp32:16, i32:16", "*fp32, *fp32, *fp32, i32"
    variants = tuple(Variant(f"{types}, 1024") for types in (wide, narrow))
    return Spec(add_kernel, variants, "cdiv(n_elements, BLOCK_SIZE)")


def _softmax(target: Target) -> Spec:
    """v4 of the ladder with a row per program: its signature has the rows, which a grid needs."""
    from kernels.softmax import softmax_kernel_v4

    variants = tuple(
        Variant(f"*fp32:16, *fp32:16, i32, {width}, {width}, 1, 1, 1024")
        for width in ("i32:16", "i32")
    )
    return Spec(softmax_kernel_v4, variants, "n_rows")


def _attention(target: Target) -> Spec:
    """With EVEN_M, EVEN_N and EVEN_HEADDIM at run time, so that one kernel takes every length."""
    from kernels.attention.export import _fwd_kernel
    from kernels.attention.settings import settings_for

    settings = settings_for(64, target.shared_bytes // 1024)
    flags = ("i1", "i1", "i1", "1")
    variants = tuple(
        attention_variant("fp16", 64, settings, flags, hint, stride="i32") for hint in (":16", "")
    )
    defines = {"BLOCK_M": settings.block_m, "BLOCK_N": settings.block_n}
    return Spec(_fwd_kernel, variants, "cdiv(seqlen_q, BLOCK_M), batch * nheads", defines)


SPECS: dict[str, Callable[[Target], Spec]] = {
    "vector_add": _vector_add,
    "softmax": _softmax,
    "attention": _attention,
}
