"""What Triton's own JIT makes of kernels, to compare `lower` with."""

import json

from course.isolate.commands import run_source
from course.lowering.passes import without_locations

WARMUP = """
import json
import course, torch
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from tests.support import lower_kernels as kernels
from tests.support.fixed_driver import use

use({target!r})
x = torch.zeros(5000)
compiled = {{{launches}}}
print(json.dumps({{
    case: {{name: text for name, text in kernel.asm.items() if isinstance(text, str)}}
    for case, kernel in compiled.items()
}}))
"""


def jit_stages(launches, target):
    """By case the stages of a launch, in a process of their own.

    launches: by case a kernel of `lower_kernels` and its arguments, as text, which may name a
        tensor x.
    """
    warmups = (
        f"{case!r}: kernels.{kernel}.warmup({arguments}, grid=(1,))"
        for case, (kernel, arguments) in launches.items()
    )
    source = WARMUP.format(target=target, launches=", ".join(warmups))
    ended = run_source(source, kind="compile", timeout_s=1200)
    assert ended.how == "finished", ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def comparable(stages):
    """Stages without the places in files, which are not the same where the tests are installed
    elsewhere."""
    return {name: without_locations(text) for name, text in stages.items() if name != "source"}
