"""Count the instructions that teach, in each stage."""

import re

IN_TRITON_GPU_IR = {
    "loads": r"\btt\.(?:load|descriptor_(?:load|gather))\b|\bamdg\.buffer_load\b",
    "stores": r"\btt\.(?:store|descriptor_(?:store|scatter))\b|\bamdg\.buffer_store\b",
    "dots": r"\b(?:tt\.dot|ttng\.warp_group_dot|ttng\.tc_gen5_mma)(?:_scaled)?\b",
    "reductions": r'"tt\.reduce"',
    "layout conversions": r"\bttg\.convert_layout\b",
    "shared allocations": r"\bttg\.local_alloc\b",
    "shared loads": r"\bttg\.local_load\b",
    "shared stores": r"\bttg\.local_store\b",
    "asynchronous copies": (
        r"\bttg\.async_copy_global_to_local\b"
        r"|\bttng\.async_tma_(?:copy_global_to_local|copy_local_to_global|gather|scatter)\b"
    ),
}
# stage -> what it is called in a lesson -> the pattern of one
PATTERNS: dict[str, dict[str, str]] = {
    "ttir": {name: IN_TRITON_GPU_IR[name] for name in ("loads", "stores", "dots", "reductions")},
    "glir": IN_TRITON_GPU_IR,
    "ttgir": IN_TRITON_GPU_IR,
    "llir": {
        "fp additions": r"= fadd\b",
        "fp multiplications": r"= fmul\b",
        "fused multiply-adds": r"@llvm\.fma\.",
        "inline assembly": r'\basm (?:\w+ )*"',
        "barriers": r"@llvm\.nvvm\.barrier|@llvm\.amdgcn\.s\.barrier(?!\.wait)",
    },
    "ptx": {
        "global loads": r"\bld\.(?:\w+\.)*global\b",
        "vectorized global loads": r"\bld\.(?:\w+\.)*global\b\S*\.v[248]",
        "global stores": r"\bst\.(?:\w+\.)*global\b",
        "vectorized global stores": r"\bst\.(?:\w+\.)*global\b\S*\.v[248]",
        "asynchronous copies": r"\bcp\.async\.c[ag]\.|\bcp\.async\.bulk\.tensor\b",
        "shared loads": r"\bld\.shared\b|\bldmatrix\b",
        "shared stores": r"\bst\.shared\b|\bstmatrix\b",
        "shuffles": r"\bshfl\.sync\b",
        "barriers": r"\bbar(?:rier)?\.(?:cta\.)?sync\b",
        "fp32 additions": r"(?<!\.)\badd\.(?:\w+\.)*f32(?:x2)?\b",
        "fp32 fused multiply-adds": r"(?<!\.)\bfma\.(?:\w+\.)*f32(?:x2)?\b",
        "mma": r"\bmma\.sync\b",
        "wgmma": r"\bwgmma\.mma_async\b",
        "tcgen05": r"\btcgen05\.mma\b",
    },
    "sass": {
        "global loads": r"\bLDG\.",
        "vectorized global loads": r"\bLDG\.\S*\.(?:64|128)\b",
        "global stores": r"\bSTG\.",
        "vectorized global stores": r"\bSTG\.\S*\.(?:64|128)\b",
        "asynchronous copies": r"\bLDGSTS\b|\bUTMALDG\b|\bUTMASTG\b",
        "shared loads": r"\bLDS\b|\bLDSM\b",
        "shared stores": r"\bSTS\b|\bSTSM\b",
        "spill loads": r"\bLDL\b",
        "spill stores": r"\bSTL\b",
        "shuffles": r"\bSHFL\.",
        "barriers": r"\bBAR\.SYNC\b",
        "fp32 additions": r"\bFADD2?\b",
        "fp32 fused multiply-adds": r"\bFFMA2?\b",
        "mma": r"\b[HIDQO]MMA\.",
        "wgmma": r"\b[HIQ]GMMA\.",
        "tcgen05": r"\bUTC[HQIO]\w*MMA\b",
    },
    "amdgcn": {
        "global loads": r"\b(?:global|buffer)_load_",
        "vectorized global loads": r"\b(?:global|buffer)_load_(?:dwordx|b)(?:2|3|4|64|96|128)\b",
        "global stores": r"\b(?:global|buffer)_store_",
        "vectorized global stores": r"\b(?:global|buffer)_store_(?:dwordx|b)(?:2|3|4|64|96|128)\b",
        "shared loads": r"\bds_(?:read|load)",
        "shared stores": r"\bds_(?:write|store)",
        "shuffles": r"\bds_bpermute|\bds_swizzle|\bv_permlane|_dpp\b",
        "barriers": r"\bs_barrier(?!_wait)",
        "fp32 additions": r"\bv_(?:pk_|dual_)?add_f32",
        "fp32 fused multiply-adds": r"\bv_(?:pk_|dual_)?fma\w*_f32|\bv_fmac_f32",
        "mfma": r"\bv_mfma_",
        "wmma": r"\bv_wmma_",
    },
}
COMMENT = re.compile(r"^\s*(?://|;|#|!)|^\s*declare ")


class Counts(dict[str, dict[str, int]]):
    """For each stage, how often each instruction stands there. Prints those that occur."""

    def __str__(self) -> str:
        rows: list[str] = []
        for stage, numbers in self.items():
            counted = (f"    {number:5}  {name}" for name, number in numbers.items() if number)
            rows += [stage, *counted]
        return "\n".join(rows)

    __repr__ = __str__


def count(stages: dict[str, str]) -> Counts:
    """The instructions of each stage. stages: the text of each, by its name."""
    return Counts({stage: _counted(text, PATTERNS[stage]) for stage, text in stages.items()})


def _counted(text: str, patterns: dict[str, str]) -> dict[str, int]:
    code = [re.sub(r"/\*.*?\*/", "", line) for line in text.split("\n") if not COMMENT.match(line)]
    return {
        name: sum(len(re.findall(pattern, line)) for line in code)
        for name, pattern in patterns.items()
    }
