"""The enumerations that triton.language hands to a builder, and names that annotations mention."""

from enum import Enum
from typing import Any


def _numbered(name: str, members: str, start: int = 1) -> Any:
    return Enum(name, members, start=start)  # type: ignore[misc]


ATOMIC_OP = _numbered("ATOMIC_OP", "AND OR XOR ADD FADD MAX MIN UMAX UMIN XCHG")
CACHE_MODIFIER = _numbered("CACHE_MODIFIER", "NONE CA CG WB CS WT CV")
DESCRIPTOR_REDUCE_KIND = _numbered("DESCRIPTOR_REDUCE_KIND", "ADD MIN MAX INC DEC AND OR XOR")
EVICTION_POLICY = _numbered("EVICTION_POLICY", "NORMAL EVICT_FIRST EVICT_LAST")
INPUT_PRECISION = _numbered("INPUT_PRECISION", "TF32 TF32x3 IEEE BF16x3 BF16x6", start=0)
MEM_SEMANTIC = _numbered("MEM_SEMANTIC", "RELAXED ACQUIRE RELEASE ACQUIRE_RELEASE")
MEM_SYNC_SCOPE = _numbered("MEM_SYNC_SCOPE", "GPU CTA SYSTEM")
PADDING_OPTION = _numbered("PADDING_OPTION", "PAD_ZERO PAD_NAN")
PROPAGATE_NAN = Enum("PROPAGATE_NAN", {"NONE": 0, "ALL": 0xFFFF})
ROUNDING_MODE = _numbered("ROUNDING_MODE", "RTZ RTNE", start=0)
ScaleDotElemTypeTY = _numbered("ScaleDotElemTypeTY", "E4M3 E5M2 E2M3 E3M2 E2M1 BF16 FP16", start=0)


class builder:  # noqa: N801  its name there
    """Stands for every type that an annotation mentions; builds nothing."""


def __getattr__(name: str) -> type[builder]:
    if name.startswith("__"):
        raise AttributeError(name)
    return builder
