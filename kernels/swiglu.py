"""SwiGLU: out[i] = silu(gate[i]) * up[i], with silu(t) = t * sigmoid(t).

    for each block of BLOCK_SIZE elements, in parallel:
        out[block] = gate[block] * sigmoid(gate[block]) * up[block]

In bytes for n elements of s bytes: 3 * n * s, each input read once and the result written once.
PyTorch's three operations, one after another, move 8 * n * s.
"""

import torch
import triton
import triton.language as tl

from kernels.checks import check_runs_on, check_tensors
from kernels.device import as_stored

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    """Program i owns elements [i * BLOCK_SIZE, (i + 1) * BLOCK_SIZE)."""
    offsets = tl.program_id(axis=0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    gate = tl.load(gate_ptr + offsets, mask=mask).to(tl.float32)
    up = tl.load(up_ptr + offsets, mask=mask).to(tl.float32)
    tl.store(out_ptr + offsets, gate * tl.sigmoid(gate) * up, mask=mask)


def swiglu(
    gate: torch.Tensor, up: torch.Tensor, block_size: int = 1024, num_warps: int = 4
) -> torch.Tensor:
    """silu(gate) * up in one launch; computed in float32, rounded once. Forward only.

    gate, up: of one shape, dtype and device, any strides; what is not contiguous is copied first.
    block_size: elements per program, a power of two.

    Raises TypeError for a non-tensor; ValueError where shapes, dtypes or devices do not fit, or
    the tensors are on the CPU and the kernel is compiled for a GPU.
    """
    check_tensors("swiglu", gate=gate, up=up)
    check_runs_on("swiglu", swiglu_kernel, gate)
    if gate.shape != up.shape or gate.dtype != up.dtype or gate.device != up.device:
        raise ValueError(
            f"swiglu: gate is {tuple(gate.shape)} {gate.dtype} on {gate.device} and up "
            f"{tuple(up.shape)} {up.dtype} on {up.device}; both must be the same."
        )
    if gate.dtype not in DTYPES:
        raise ValueError(
            f"swiglu: gate is {gate.dtype}; this kernel takes float16, bfloat16 and float32."
        )
    gate, up = as_stored(gate).contiguous(), as_stored(up).contiguous()
    out = torch.empty_like(gate)
    if out.numel():
        with torch.cuda.device_of(gate):
            swiglu_kernel[(triton.cdiv(out.numel(), block_size),)](
                gate, up, out, out.numel(), BLOCK_SIZE=block_size, num_warps=num_warps
            )
    return out


if __name__ == "__main__":
    from kernels.program import main

    main(
        __doc__, [swiglu], lambda gate, up: gate * torch.sigmoid(gate) * up,
        lambda n: (torch.randn(n), torch.randn(n)), small=(1030,), large=(2**26,),
    )
