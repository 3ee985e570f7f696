"""PyTorch follows the operators of kernels/ into their launches, as torch.compile does.

It needs compiled kernels but no GPU, as the tensors hold nothing; so a process without the
interpreter does it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRACE = """
import contextlib

import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from kernels.cross_entropy import cross_entropy_backward, cross_entropy_operator
from kernels.rms_norm import rms_norm_operator
from kernels.rms_norm_backward import rms_norm_backward

torch.cuda.device_of = lambda x: contextlib.nullcontext()  # it asks the driver
sizes = ShapeEnv()


def unknown(size, name):
    symbol = sizes.create_symbol(
        size, ConstantSource(name), dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None
    )
    return sizes.create_symintnode(symbol, hint=size)


with FakeTensorMode(shape_env=sizes):
    rows, columns = unknown(30, "rows"), unknown(5000, "columns")
    numbers = torch.empty(rows, device="cuda")
    x = torch.empty(rows, columns, device="cuda")
    if OPERATION == "rms_norm":
        weight = torch.empty(columns, device="cuda")
        out, rstd = rms_norm_operator(x, weight, 1e-6)
        d_x, d_weight = rms_norm_backward(out, x, weight, rstd)
        shapes = out.shape == d_x.shape == x.shape and d_weight.shape == weight.shape
    else:
        target = torch.empty(rows, device="cuda", dtype=torch.int64)
        loss, lse = cross_entropy_operator(x, target, -100)
        shapes = loss.shape == target.shape
        shapes &= cross_entropy_backward(loss, x, target, lse, -100).shape == x.shape
# A number of rows that was fixed would have every batch compile anew.
print(shapes, rows.node.maybe_as_int() is None)
"""


@pytest.mark.parametrize("operation", ["rms_norm", "cross_entropy"])
def test_a_trace_leaves_the_number_of_rows_open(operation):
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", TRACE.replace("OPERATION", repr(operation))]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stdout.split() == ["True", "True"]
