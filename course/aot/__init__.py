"""Kernels as C, ahead of time: export, link, build, load. No GPU is needed before the launch.

exported = aot.export(add_kernel, ["*fp32:16, *fp32:16, *fp32:16, i32, 1024",
                                   "*fp32, *fp32, *fp32, i32, 1024"],
                      grid="cdiv(n, BLOCK_SIZE)", name="add", out="aot/add")
library = aot.build(aot.link(exported, out="aot/linked"))
aot.load(library).add(x, y, out, n)

aot.sample("attention", "work/attention")    # programs in C and C++ around a kernel, and a Makefile
out, lse = aot.operator()(q, k, v, 0.125, True)    # torch.ops.course.fmha
"""

from . import fake_driver
from .api import build, export, link, load
from .example_project import Sample, sample
from .loaded import Loaded
from .operators import build_operator, operator
from .options import Variant
from .result import Exported, Linked

__all__ = [
    "Exported", "Linked", "Loaded", "Sample", "Variant",
    "build", "build_operator", "export", "fake_driver", "link", "load", "operator", "sample",
]  # fmt: skip
