"""The exercises on the topic "compilation stages"."""

import re
from typing import Any

import torch
import triton

from course.exercises.kinds import (
    DiagnosisExercise,
    KernelExercise,
    LauncherExercise,
    NamesExercise,
    NumberExercise,
    cause,
)
from course.exercises.result import Judged, wrong
from course.type_names import Kernel
from course.verifying.inputs import Case, Input

MULTIPROCESSORS = 132
"""Of an H100 or H200."""
MOST_TIMES = 1.25
"""Sectors over the least that an access may move."""


def _copy_rows(kernel: Kernel, x: torch.Tensor) -> torch.Tensor:
    # Not the same for all cases, so that a kernel must go by what it is given.
    n_cols = x.stride(0) - 4
    out = torch.empty(len(x), n_cols, dtype=x.dtype, device=x.device)
    kernel[(len(x),)](x, out, x.stride(0), n_cols, BLOCK_SIZE=1024)
    return out


def _all_loads_are_wide(stages: dict[str, str]) -> Judged | None:
    loads = re.findall(r"\bld\.global\S*", stages["ptx"])
    narrow = [load for load in loads if ".v4." not in load]
    says = f"The values are right, but {len(narrow)} of {len(loads)} loads in the PTX are narrow."
    return wrong("narrow loads", says) if narrow else None


def _collect_pages(kernel: Kernel, pool: torch.Tensor, pages: torch.Tensor) -> torch.Tensor:
    n_pages, page_size = len(pages), pool.shape[1]
    out = torch.empty(n_pages, page_size, dtype=pool.dtype, device=pool.device)
    kernel[(n_pages,)](pool, pages * page_size, out, PAGE_SIZE=page_size)
    return out


def _no_load_is_wide(stages: dict[str, str]) -> Judged | None:
    loads = re.findall(r"\bld\.global\S*", stages["ptx"])
    says = f"The values are right, but all {len(loads)} loads in the PTX are narrow."
    return None if any(".v4." in load for load in loads) else wrong("narrow loads", says)


def _scale_rows(kernel: Kernel, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](x, scale, out, *x.shape, BLOCK_SIZE=256)
    return out


def _sectors_wasted(kernel: Kernel) -> Judged | None:
    """Which access of the kernel moves more sectors than it must, on an H200."""
    from course.tracing.api import cost  # it loads the compiler's side

    x, out = (torch.empty(64, 1024, device="meta") for _ in range(2))
    scale = torch.empty(64, device="meta")
    counted = cost(kernel, (64,), x, scale, out, 64, 1024, BLOCK_SIZE=1024, target="H200")
    wasteful = [access for access in counted.accesses if access.times > MOST_TIMES]
    if not wasteful:
        return None
    worst = max(wasteful, key=lambda access: access.sectors - access.least)
    return wrong(
        f"sectors {worst.kind}",
        f"line {worst.line} moves {worst.times:.1f} times the sectors that it must "
        f"({worst.kind} {worst.tensor}, 64 x 1,024).",
    )


def _spills(stages: dict[str, Any]) -> Judged | None:
    """Whether threads keep values in memory for want of registers."""
    from course.lowering.sass import nvidia_tool  # it loads the compiler's side

    usage = nvidia_tool("cuobjdump", stages["cubin"], "--dump-resource-usage")
    sizes = re.search(r"STACK:(\d+)", usage)
    if sizes is None or sizes[1] == "0":
        return None
    text = f"The values are right, but {sizes[1]} bytes per thread find no register and spill."
    return wrong("spills", text)


EXERCISES = (
    NamesExercise(
        "which-stage",
        right=("ptx", "ttir", "sass", "ttgir", "llir"),
        of="stages",
        synonyms={"llvm ir": "llir", "llvm-ir": "llir", "llvm": "llir", "cubin": "sass"},
        because="Registers with % are PTX, without it SASS; blocks with a layout are TTGIR, "
        "without one TTIR.",
        slips={
            ("ptx", "ttgir", "sass", "ttir", "llir"):
            "2 and 4 are swapped: only TTGIR has layouts, the # behind the type.",
            ("sass", "ttir", "ptx", "ttgir", "llir"):
            "1 and 3 are swapped: PTX's registers begin with %, and SASS has R and P.",
            ("llir", "ttir", "sass", "ttgir", "ptx"):
            "1 and 5 are swapped: getelementptr is LLVM's, ld.global is PTX's.",
        },
    ),
    NumberExercise(
        "elements-per-thread",
        right=32,
        unit="elements",
        relative=0.0,
        because="2,048 elements over 2 x 32 threads.",
        slips={
            4: "That is sizePerThread: the pattern covers 4 x 32 x 2 = 256 elements and is laid "
            "eight times.",
            16: "That is with 4 warps, or with half the block. Here 2 warps share 2,048 elements.",
            8: "That is with 4 warps and a block of 1,024.",
            64: "That is with one warp.",
            1024: "That is the elements of a warp.",
        },
    ),
    KernelExercise(
        "wide-loads",
        parameters=("x_ptr", "out_ptr", "stride", "n_cols", "BLOCK_SIZE"),
        reference=lambda x: x[:, :-4].clone(),
        cases=tuple(
            Case((Input((rows, stride)),), seed=rows)
            for rows, stride in ((5, 1004), (2, 1020), (3, 604))
        ),
        launch=_copy_rows,
        compiled=_all_loads_are_wide,
    ),
    DiagnosisExercise(
        cause=cause(
            "slow-rows-and-factors",
            right="c",
            a="256 programs are enough for any GPU.",
            b="The loads are narrow, but as a consequence: lanes that follow one another are no "
            "neighbors in memory. `cost` says what that wastes.",
            c="Lanes that follow one another are a row apart, so each pays for a sector of its "
            "own.",
            d="`lower` reports no spilled bytes.",
        ),
        mended=KernelExercise(
            "slow-rows-and-factors",
            parameters=("x_ptr", "scale_ptr", "out_ptr", "n_rows", "n_cols", "BLOCK_SIZE"),
            reference=lambda x, scale: x * scale[:, None],
            cases=tuple(
                Case((Input((rows, cols)), Input((rows,))), seed=rows + cols)
                for rows, cols in ((7, 300), (64, 64), (1, 100), (100, 1), (33, 1000))
            ),
            launch=_scale_rows,
        ),
        counted=_sectors_wasted,
    ),
    DiagnosisExercise(
        cause=cause(
            "slow-pages",
            right="b",
            a="There is a program for each page, and 4,096 pages are enough for any GPU.",
            b="Where a page begins was loaded from memory, so the compiler cannot know that 4 "
            "divides it. A plain copy waits for memory and hardly notices; a kernel that also "
            "computes does.",
            c="The lanes of a warp load neighbors. Narrow loads ask for the same sector four "
            "times, and the cache has it after the first.",
            d="A thread holds 16 elements, and `lower` reports no spilled bytes.",
        ),
        mended=KernelExercise(
            "slow-pages",
            parameters=("pool_ptr", "starts_ptr", "out_ptr", "PAGE_SIZE"),
            reference=lambda pool, pages: pool[pages.long()],
            cases=tuple(
                Case((Input((80, size)), Input((n,), torch.int32, values="small")), seed=n)
                for n, size in ((5, 2048), (1, 512), (7, 1024), (6, 512))
            ),
            launch=_collect_pages,
            compiled=_no_load_is_wide,
        ),
    ),
    DiagnosisExercise(
        cause=cause(
            "slow-shares-of-a-sum",
            right="d",
            a="One program per row is what this matrix has to offer, and there are 4,096 rows.",
            b="All of its loads are wide: 32,768 and the addresses are divisible by 16.",
            c="The lanes of a warp load neighbors: `cost` counts no more sectors than it must.",
            d="A thread would have to hold 32,768 / 128 = 256 elements, and it has 255 registers.",
        ),
        mended=LauncherExercise(
            "slow-shares-of-a-sum",
            parameters=("x",),
            reference=lambda x: x / x.sum(dim=1, keepdim=True),
            cases=tuple(
                Case((Input((rows, cols), values="below zero"),), seed=rows)
                for rows, cols in ((3, 30_000), (2, 32_768), (5, 1), (4, 1001))
            ),
            compiled=_spills,
        ),
    ),
    DiagnosisExercise(
        cause=cause(
            "slow-long-rows",
            right="a",
            a="Four programs keep four multiprocessors busy, and an H200 has 132.",
            b="Its loads are wide: 2^20 and the addresses are divisible by 16.",
            c="The lanes of a warp load neighbors: `cost` counts no more sectors than it must.",
            d="A block has 1,024 elements, 8 per thread: `lower` reports no spilled bytes.",
        ),
        mended=LauncherExercise(
            "slow-long-rows",
            parameters=("x", "limit"),
            reference=lambda x, limit: torch.minimum(x, limit[:, None]),
            cases=tuple(
                Case((Input((rows, cols)), Input((rows,))), seed=rows)
                for rows, cols in ((4, 200_003), (1, 100), (3, 5000), (70, 3))
            ),
            block=1,
            least_programs=lambda x, limit: min(MULTIPROCESSORS, x.numel() // 8192),
        ),
    ),
)  # fmt: skip
