"""Launchers of element-wise kernels, for tests that care about the kernel alone."""

import torch
import triton


def elementwise(kernel, programs=lambda n: triton.cdiv(n, 1024)):
    """A launcher that takes tensors of one length, and gives the kernel blocks of 1,024.

    programs: how many are started for so many elements; none where it says 0.
    """

    def launch(*inputs):
        inputs = [tensor.contiguous() for tensor in inputs]
        out = torch.empty_like(inputs[0])
        if count := programs(out.numel()):
            kernel[(count,)](*inputs, out, out.numel(), BLOCK_SIZE=1024)
        return out

    return launch
