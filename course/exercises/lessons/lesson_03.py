"""The exercises of lesson 03."""

import re

import torch

from course.exercises.kinds import Answer, Kernel, Number, Text
from course.exercises.names_in_order import NamesInOrder
from course.verifying.inputs import Case, Input


def _copy_rows(kernel: Answer, x: torch.Tensor) -> torch.Tensor:
    n_cols = (
        x.stride(0) - 4
    )  # not the same for all cases, so that a kernel must go by what it is given
    out = torch.empty(len(x), n_cols, dtype=x.dtype, device=x.device)
    kernel[(len(x),)](x, out, x.stride(0), n_cols, BLOCK_SIZE=1024)
    return out


def _all_loads_are_wide(stages: dict[str, str]) -> str:
    loads = re.findall(r"\bld\.global\S*", stages["ptx"])
    narrow = [load for load in loads if ".v4." not in load]
    return (
        f"The values are right, but {len(narrow)} of {len(loads)} loads in the PTX are narrow."
        if narrow
        else ""
    )


EXERCISES = (
    NamesInOrder(
        "03.1",
        right=("ptx", "ttir", "sass", "ttgir", "llir"),
        of="stages",
        synonyms={"llvm ir": "llir", "llvm-ir": "llir", "llvm": "llir", "cubin": "sass"},
        because="Registers with % are PTX, without it SASS; blocks with a layout are TTGIR, "
        "without one TTIR.",
        slips={
            (
                "ptx",
                "ttgir",
                "sass",
                "ttir",
                "llir",
            ): "2 and 4 are swapped: only TTGIR has layouts, the # behind the type.",
            (
                "sass",
                "ttir",
                "ptx",
                "ttgir",
                "llir",
            ): "1 and 3 are swapped: PTX's registers begin with %, and SASS has R and P.",
            (
                "llir",
                "ttir",
                "sass",
                "ttgir",
                "ptx",
            ): "1 and 5 are swapped: getelementptr is LLVM's, ld.global is PTX's.",
        },
    ),
    Number(
        "03.2",
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
    Kernel(
        "03.3",
        parameters=("x_ptr", "out_ptr", "stride", "n_cols", "BLOCK_SIZE"),
        reference=lambda x: x[:, :-4].clone(),
        cases=tuple(
            Case((Input((rows, stride)),), seed=rows)
            for rows, stride in ((5, 1004), (2, 1020), (3, 604))
        ),
        launch=_copy_rows,
        compiled=_all_loads_are_wide,
    ),
    Text(
        "03.4",
        accepts=(
            "tritongpu-remove-layout-conversions",
            "TritonGPURemoveLayoutConversions",
            "12 tritongpu-remove-layout-conversions",
        ),
        because="Before it there are conversions, after it none is left.",
        slips={
            "convert-triton-to-tritongpu": "That gives every block a plain layout, one element "
            "a thread; look at what follows.",
            "tritongpu-coalesce": "That one puts the conversions in, around each load and store "
            "whose layout it changes.",
        },
    ),
    Text(
        "03.5",
        accepts=("%p3", "p3", "@%p3"),
        because="The predicate before the load decides whether it is made.",
        slips={
            "%r5": "%r5 receives what is loaded; a masked lane finds the zero there that was "
            "put in before.",
            "%r17": "%r17 is what the offset is compared with.",
            "%r19": "%r19 is the offset.",
            "zero": "A masked lane loads nothing; the zero was in its register before.",
        },
    ),
    Number(
        "03.6",
        right=512,
        unit="threads",
        relative=0.0,
        because="8 warps of 64 threads.",
        slips={
            256: "That is with warps of 32; a warp has 64 threads there.",
            64: "That is one warp.",
        },
    ),
)
