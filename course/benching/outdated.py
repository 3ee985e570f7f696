"""Which functions a record is of, and whether their code has changed since they were timed.

The functions stand here by name: telling an outdated record imports neither PyTorch nor Triton.
"""

import functools

from course.places import other_kernels

from .source_hash import code_hash

BACKWARD = "course.benching.benchmarks.rms_norm_backward"


def _ladder(public: str, versions: int) -> tuple[str, ...]:
    """A function with so many versions before it, numbered from 1."""
    return (*(f"{public}_v{version}" for version in range(1, versions + 1)), public)


TIMED: dict[str, tuple[str, ...]] = {
    "attention_power": ("kernels.attention.gluon.kernel.attention_kernel",),
    "attention_timeline": (
        "kernels.attention.gluon.kernel.attention_kernel",
        "kernels.attention.gluon.small.small_kernel",
    ),
    "bias_gelu": _ladder("kernels.bias_gelu.bias_gelu", 0),
    "cross_entropy": _ladder("kernels.cross_entropy.cross_entropy", 3),
    "flash_attention": (
        *(f"kernels.attention.tl.flash_attention_v{version}" for version in range(1, 4)),
        "kernels.attention.tl_hopper.flash_attention_v4",
        "kernels.attention.flash_attention_tl",
    ),
    "flash_attention_backward": tuple(
        f"course.benching.benchmarks.flash_attention_backward.{version}"
        for version in ("v1", "v2", "planned")
    ),
    "flash_attention_hopper": ("kernels.attention.flash_attention_forward",),
    "matmul": _ladder("kernels.matmul.matmul", 5),
    "rms_norm": _ladder("kernels.rms_norm.rms_norm", 5),
    "rms_norm_backward": (f"{BACKWARD}.v1", f"{BACKWARD}.v2", f"{BACKWARD}.planned"),
    "softmax": (
        *(f"kernels.softmax.softmax_v{version}" for version in range(1, 5)),
        *(f"kernels.softmax_tuned.softmax_v{version}" for version in range(5, 9)),
        "kernels.softmax.softmax",
    ),
    "swiglu": _ladder("kernels.swiglu.swiglu", 0),
    "transpose": _ladder("kernels.transpose.transpose", 1),
    "training": (
        "kernels.attention.flash_attention",
        "kernels.attention.gradient.flash_attention_backward",
    ),
    "vector_add": _ladder("kernels.vector_add.add", 2),
}
"""What is recorded -> its functions. For an operation these are the versions of its ladder, and its
studies, such as "softmax_bfloat16", have its name in front."""


@functools.cache
def hash_of_today(name: str) -> str | None:
    """The hash of a record's code as this process finds it; None where that cannot be known.

    name: of TIMED, or of a study. It is "" where a function is gone or its file cannot be read.
    """
    owners = [owner for owner in TIMED if f"{name}_".startswith(f"{owner}_")]
    if not owners or other_kernels():
        return None
    try:
        return code_hash(TIMED[max(owners, key=len)])
    except (LookupError, OSError, SyntaxError):
        return ""


def has_changed(name: str, source_hash: str) -> bool:
    """Whether the code of a record is known to be another than that of `source_hash`, its hash when
    it was timed."""
    today = hash_of_today(name)
    return today is not None and source_hash not in ("", today)
