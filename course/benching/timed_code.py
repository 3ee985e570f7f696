"""Which functions a record is of, and whether their code has changed since they were timed.

The functions stand here by name: telling an outdated record imports neither PyTorch nor Triton.
"""

import functools

from course.places import other_kernels

from .source_hash import code_hash

BACKWARD = "course.benching.benchmarks.rms_norm_backward"

TIMED: dict[str, tuple[str, ...]] = {
    "attention_power": ("kernels.attention.gluon.kernel.attention_kernel",),
    "attention_timeline": (
        "kernels.attention.gluon.kernel.attention_kernel",
        "kernels.attention.gluon.small.small_kernel",
    ),
    "bias_gelu": ("kernels.bias_gelu.bias_gelu",),
    "cross_entropy": (
        *(f"kernels.cross_entropy.cross_entropy_v{version}" for version in range(1, 4)),
        "kernels.cross_entropy.cross_entropy",
    ),
    "flash_attention": (
        *(f"kernels.attention.tl.flash_attention_v{version}" for version in range(1, 4)),
        "kernels.attention.tl_hopper.flash_attention_v4",
        "kernels.attention.flash_attention_tl",
    ),
    "flash_attention_hopper": ("kernels.attention.flash_attention",),
    "matmul": (
        *(f"kernels.matmul.matmul_v{version}" for version in range(1, 6)),
        "kernels.matmul.matmul",
    ),
    "rms_norm": (
        *(f"kernels.rms_norm.rms_norm_v{version}" for version in range(1, 6)),
        "kernels.rms_norm.rms_norm",
    ),
    "rms_norm_backward": (f"{BACKWARD}.v1", f"{BACKWARD}.v2", f"{BACKWARD}.planned"),
    "softmax": (
        *(f"kernels.softmax.softmax_v{version}" for version in range(1, 5)),
        *(f"kernels.softmax_tuned.softmax_v{version}" for version in range(5, 9)),
        "kernels.softmax.softmax",
    ),
    "transpose": ("kernels.transpose.transpose_v1", "kernels.transpose.transpose"),
    "vector_add": tuple(f"kernels.vector_add.{name}" for name in ("add_v1", "add_v2", "add")),
}
"""What is recorded -> its functions. Of an operation these are the versions of its ladder, and its
studies, such as "softmax_bfloat16", bear its name in front."""


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
