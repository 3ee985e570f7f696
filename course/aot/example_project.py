"""sample: a complete program in C, and one in C++, around a kernel of the course."""

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course.errors import CourseError
from course.files import write_together
from course.gpus.limits import Target

from .building import include_folder
from .exporting import Variant, export, nvidia_target
from .identifiers import check_out
from .linking import link

FOLDER = Path(__file__).parent / "examples"
SHARED = ("Makefile", "gpu.h", "gpu.hpp")
OWN = ("main.c", "main.cpp")
SETTINGS = "settings.mk"
SETTINGS_MARK = "# Written by course aot sample."


@dataclass(frozen=True)
class Sample:
    """A folder with a kernel's C, two programs that launch it, and a Makefile. Prints what to type."""

    name: str
    folder: Path
    target: str

    def __str__(self) -> str:
        make = f"make -C {shlex.quote(str(self.folder))} run"
        return (
            f"{self.folder}: {self.name} for {self.target}, in C (main.c) and in C++ (main.cpp)\n"
            f"    {make}    builds both and runs them\n"
            f'    {make} CUDA_LIB="$(course aot standin)"    without a GPU: launches, and computes nothing'
        )

    __repr__ = __str__


@dataclass(frozen=True)
class Spec:
    """What a sample exports."""

    kernel: Any
    variants: tuple[Variant, ...]
    grid: str
    defines: dict[str, int]
    """What the programs must know of the kernel's constants."""


def sample(
    name: str, folder: str | Path, target: str | None = "sm_90", force: bool = False
) -> Sample:
    """Export and link a kernel of the course into a folder, with a program in C, one in C++ and a Makefile. Needs no GPU.

    name: vector_add, softmax or attention. target: as "sm_90"; None: this machine's GPU.
    force: write over programs in the folder that were changed.

    The programs make their inputs, launch on the first GPU, compare with plain loops in double, and return 0, or 1 after an
    error and 2 where the results do not agree. No Python is in them.

    Raises CourseError for another name, and where the folder has files of these names that were changed.
    """
    if name not in SPECS:
        raise CourseError(f"There is no sample {name!r}: the samples are {', '.join(SPECS)}.")
    path = check_out(folder)
    found_target = nvidia_target(target)
    files = {path / each: (FOLDER / each).read_bytes() for each in SHARED}
    files |= {path / each: (FOLDER / name / each).read_bytes() for each in OWN}
    if not force:
        _refuse_changed(files, path / SETTINGS)
    spec = SPECS[name](found_target)
    exported = export(
        spec.kernel,
        spec.variants,
        spec.grid,
        name,
        path / "variants" / name,
        target=found_target.name,
        force=force,
    )
    linked = link(exported, path / name, force=force)
    sources = [os.path.relpath(each, path) for each in linked.sources]
    write_together({**files, path / SETTINGS: _settings(name, sources, spec.defines)})
    return Sample(name, path, found_target.name)


def _refuse_changed(files: dict[Path, bytes], settings: Path) -> None:
    """Raise CourseError where a file is there that is not ours any more: a learner's own work is never written over."""
    changed = [
        path
        for path, content in files.items()
        if path.exists() and (path.is_dir() or path.read_bytes() != content)
    ]
    if settings.exists() and not settings.read_text(errors="replace").startswith(SETTINGS_MARK):
        changed.append(settings)
    if changed:
        raise CourseError(
            f"{changed[0]} exists and is not what this sample has: name another folder, or give --force."
        )


def _settings(name: str, sources: list[str], defines: dict[str, int]) -> str:
    """What the Makefile must be told."""
    return (
        f"{SETTINGS_MARK} To change it, write the sample again.\n"
        f"NAME := {name}\n"
        f"SOURCES := {' '.join(sources)}\n"
        f"DEFINES := {' '.join(f'-D{key}={value}' for key, value in defines.items())}\n"
        f"CUDA_INCLUDE ?= {include_folder()}\n"
    )


def _vector_add(target: Target) -> Spec:
    from kernels.vector_add import add_kernel

    signatures = ("*fp32:16, *fp32:16, *fp32:16, i32, 1024", "*fp32, *fp32, *fp32, i32, 1024")
    return Spec(
        add_kernel, tuple(Variant(each) for each in signatures), "cdiv(n_elements, BLOCK_SIZE)", {}
    )


def _softmax(target: Target) -> Spec:
    """v4 of the ladder with a row a program: its signature has the number of rows, which a grid needs."""
    from kernels.softmax import softmax_kernel_v4

    return Spec(
        softmax_kernel_v4, (Variant("*fp32:16, *fp32:16, i32, i32, i32, 1, 1, 1024"),), "n_rows", {}
    )


def _attention(target: Target) -> Spec:
    """With EVEN_M, EVEN_N and EVEN_HEADDIM at run time, so that one kernel takes every length."""
    from kernels.flash_attention_export import _fwd_kernel
    from kernels.flash_attention_settings import settings_for

    head_dim = 64
    settings = settings_for(head_dim, target.shared_bytes // 1024)
    variants = tuple(
        Variant(
            ", ".join(
                [
                    *[f"*fp16{hint}"] * 4, f"*fp32{hint}", "*fp32", "fp32",  # Q, K, V, Out; Lse; TMP; softmax_scale
                    "i32", "i32", *[f"i32{hint}"] * 12,  # batch, nheads; the strides
                    "i32", "i32", "i32", "i32",  # seqlen_q, seqlen_k, seqlen_q_rounded, head_dim
                    "i1", "i1", "i1", "1",  # EVEN_M, EVEN_N, EVEN_HEADDIM; IS_CAUSAL
                    str(head_dim), str(settings.block_m), str(settings.block_n),
                ]
            ),
            settings.num_warps,
            settings.num_stages,
        )
        for hint in (":16", "")
    )  # fmt: skip
    grid = "cdiv(seqlen_q, BLOCK_M), batch * nheads"
    return Spec(
        _fwd_kernel, variants, grid, {"BLOCK_M": settings.block_m, "BLOCK_N": settings.block_n}
    )


SPECS: dict[str, Callable[[Target], Spec]] = {
    "vector_add": _vector_add,
    "softmax": _softmax,
    "attention": _attention,
}
