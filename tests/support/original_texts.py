"""Four texts about Triton from which this course began, to the letter, and what differs today.

1. Flash attention exported to C with `compile.py` and `link.py`, and called from C++.
2. The same text once more, with its blocks marked. Nothing in it differs.
3. Triton's compile and serving workflow.
4. The compilation stages of a vector add.

What today's Triton does not take as it was written stands in DEVIATIONS alone: `today` makes a
listing of that time run now. Indentation that a page has lost is put back.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Deviation:
    """One difference between a text and today."""

    has: str
    """What the text has, to the letter."""
    today: str
    """What stands in its place here."""
    why: str


EXPORT = (
    Deviation(
        "python ${TRITON_ROOT}/triton/tools/compile.py",
        "python -m course aot compile",
        "Triton's own asks the machine's GPU what to compile for; it is run as it stands in the test that is marked gpu",
    ),
    Deviation(
        "python ${TRITON_ROOT}/triton/tools/link.py",
        "python -m course aot link",
        "ours; Triton's own needs no GPU, and a test runs it as it stands",
    ),
    Deviation(
        "6979ce4b_0123456789101112131415161718192021222324252627",
        "6979ce4b_",
        "the hash is the text's own, as the signature is; of the arguments only those with a hint are listed",
    ),
    Deviation(
        "--output-name",
        "--out-name",
        "the flag of Triton's tool, also in the text's own command; ours takes both",
    ),
    Deviation(
        """\
    head_num * head_dim * seq_len, head_dim, head_dim*head_num,
    head_num * head_dim * seq_len, head_dim, head_dim*head_num,
    head_num * head_dim * seq_len, head_dim, head_dim*head_num,
    head_num * head_dim * seq_len, head_dim, head_dim*head_num,
    head_num, seq_len, seq_len,
    seqlen_q_rounded, head_dim, batch_size,
""",
        """\
    batch_size, head_num,
    head_num * head_dim * seq_len, head_dim, head_dim*head_num,
    head_num * head_dim * seq_len, head_dim, head_dim*head_num,
    head_num * head_dim * seq_len, head_dim, head_dim*head_num,
    head_num * head_dim * seq_len, head_dim, head_dim*head_num,
    seq_len, seq_len,
    seqlen_q_rounded, head_dim,
""",
        "the call has the counts after the strides, the text's listing of the kernel before them; ours follows the listing",
    ),
)
WORKFLOW = (
    Deviation("def mha(...):", "def mha():", "no Python: the dots stand for arguments"),
    *(
        Deviation(
            f"triton.compiler.{name}(...)",
            f"lower(…).{stage}",
            f"gone from Triton: triton.compile makes all stages{why}",
        )
        for name, stage, why in (
            ("ast_to_ttir", "ttir", ""),
            ("ttir_to_ttgir", "ttgir", ""),
            ("ttgir_to_llir", "llir", ""),
            ("llir_to_ptx", "ptx", ""),
            (
                "ptx_to_cubin",
                "cubin",
                "; NVIDIA's assembler ptxas makes the cubin, and NVRTC has no part in it",
            ),
        )
    ),
    Deviation("threadPerWarps(default 32)", "32", "fixed by the GPU, and no option"),
    Deviation(
        "make_block_ptr",
        "make_tensor_descriptor",
        "warns from Triton 3.7 on, and is an error in 3.9",
    ),
)
STAGES = (
    Deviation(
        "device='cuda'",
        "device=DEVICE",
        "the interpreter runs where no GPU is; as it stands in the test marked gpu",
    ),
    Deviation("assert x.is_cuda and y.is_cuda and output.is_cuda", "pass", "as above"),
    Deviation("torch.cuda.synchronize()", "pass", "as above"),
    Deviation(
        "triton_kernel=add_kernel[grid](x, y, output, n_elements, BLOCK_SIZE=1024)",
        "add_kernel[grid](x, y, output, n_elements, BLOCK_SIZE=1024)\n"
        "    triton_kernel = Stages(lower(add_kernel, x, y, output, n_elements, BLOCK_SIZE=1024, target='sm_90'))",
        "a launch in the interpreter compiles nothing: `lower` gives the stages",
    ),
    Deviation("#triton_gpu.blocked<", "#ttg.blocked<", "the dialect's name has become shorter"),
    Deviation('"triton_gpu.num-ctas"', '"ttg.num-ctas"', "as above"),
    Deviation('"triton_gpu.num-warps"', '"ttg.num-warps"', "as above"),
    Deviation("triton_gpu.target", "ttg.target", "as above"),
    Deviation(
        '"triton_gpu.threads-per-warp" = 32 : i32} {',
        '"ttg.threads-per-warp" = 32 : i32',
        "as above; from Triton 3.9 on the line goes on, to say that no two CTAs share their work",
    ),
    Deviation("%arg0: ", "%x_ptr: ", "arguments and values are now called as in the kernel"),
    Deviation("%arg1: ", "%y_ptr: ", "as above"),
    Deviation("%arg2: ", "%output_ptr: ", "as above"),
    Deviation("%arg3: ", "%n_elements: ", "as above"),
    Deviation(
        ' loc("/u/saraks/triton_blog/01-vector-add.py":28:0)',
        "",
        "the writer's own file and lines: `plain` leaves every location out, on both sides",
    ),
    Deviation(
        "%19 = extractvalue",
        "% = extractvalue",
        "values are numbered anew: `plain` leaves all their names out, on both sides",
    ),
    Deviation(
        "add.f32 %f17, %f1, %f9", "add.f32 %r, %r, %r", "a 32-bit register is %r, of floats too"
    ),
)
STOCK = (
    Deviation(
        "_0123456789101112131415161718192021222324252627",
        "_",
        "of the arguments only those with a hint are listed",
    ),
)
"""Of the commands where Triton's own tools run them."""
DEVIATIONS = {"export": EXPORT, "stock": STOCK, "workflow": WORKFLOW, "stages": STAGES}


def today(text, deviations):
    """A listing as it runs now: every deviation that it has, applied."""
    for each in deviations:
        text = text.replace(each.has, each.today)
    return text


SET_UP = """\
export TRITON_ROOT=$(pip show triton | grep Location | cut -d' ' -f2)
rm -rf aot
mkdir -p aot/fp16
"""
COMPILE = r"""python ${TRITON_ROOT}/triton/tools/compile.py \
    fmha_triton.py \
    -n _fwd_kernel \
    -o aot/fp16/fmha_kernel_d64_fp16 \
    --out-name fmha_d64_fp16 \
    -w 4 \
    -ns 1 \
    -s "*fp16, *fp16, *fp16, *fp16, *fp32, *fp32, fp32, \
     i32, i32, i32, \
     i32, i32, i32, \
     i32, i32, i32, \
     i32, i32, i32, \
     i32, i32, i32, \
     i32, i32, i32, \
     i1, i1, i1, \
     1, \
     64, \
     128, \
     128" \
    -g "(seqlen_q + 127) / 128, batch * nheads, 1"
"""
LINK = "python ${TRITON_ROOT}/triton/tools/link.py aot/fp16/*.h -o aot/fmha_kernel_fp16\n"
TREE = """\
aot
├── fmha_kernel_fp16.c
├── fmha_kernel_fp16.h
└── fp16
    ├── fmha_kernel_d64_fp16.6979ce4b_0123456789101112131415161718192021222324252627.c
    └── fmha_kernel_d64_fp16.6979ce4b_0123456789101112131415161718192021222324252627.h
"""
KERNEL = """\
def _fwd_kernel(
    Q, K, V, Out, Lse, TMP, softmax_scale,
    batch, nheads, 
    ... ,
    EVEN_M, EVEN_N, EVEN_HEADDIM,
    IS_CAUSAL: tl.constexpr,
    BLOCK_HEADDIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
"""  # noqa: W291
FLAGS = ("-n", "-o", "--output-name", "-w", "-ns", "-s", "-g")
CALL = """\
res = fmha_d64_fp16_default(stream, 
    reinterpret_cast<CUdeviceptr>(Q), reinterpret_cast<CUdeviceptr>(K), reinterpret_cast<CUdeviceptr>(V),
    reinterpret_cast<CUdeviceptr>(output), reinterpret_cast<CUdeviceptr>(LSE), reinterpret_cast<CUdeviceptr>(TMP), mscale,
    head_num * head_dim * seq_len, head_dim, head_dim*head_num,
    head_num * head_dim * seq_len, head_dim, head_dim*head_num,
    head_num * head_dim * seq_len, head_dim, head_dim*head_num,
    head_num * head_dim * seq_len, head_dim, head_dim*head_num,
    head_num, seq_len, seq_len,
    seqlen_q_rounded, head_dim, batch_size,
    even_m, even_n, even_headdim);
"""  # noqa: W291
CALLER = """\
#include <cuda.h>
extern "C" {
#include "fmha_kernel_fp16.h"
}

int main() {
    CUdevice device; CUcontext context; CUstream stream = 0; CUresult res;
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context)) return 2;
    char *Q = (char *)0x1000, *K = (char *)0x2000, *V = (char *)0x3000, *output = (char *)0x4000, *LSE = (char *)0x5000, *TMP = 0;
    float mscale = 0.125f;
    int head_num = 3, head_dim = 64, seq_len = 130, seqlen_q_rounded = 256, batch_size = 2;
    bool even_m = false, even_n = false, even_headdim = true;
    CALL
    return res != CUDA_SUCCESS;
}
"""
WORKFLOW_TEXT = """\
ttir = triton.compiler.ast_to_ttir(...)
ttgir = triton.compiler.ttir_to_ttgir(...)
llir = triton.compiler.ttgir_to_llir(...)
ptx = triton.compiler.llir_to_ptx(...)
cubin = triton.compiler.ptx_to_cubin(...)
numWarps(default 4) threadPerWarps(default 32) numStages(default 3)
tensor program_id arange zeros load store make_block_ptr dot where maximum exp sum
"""
PYTHON_KERNEL = """\
@triton.jit
def mha(...):
    pass
"""
SCRIPT = """\
import torch
import triton
import triton.language as tl
@triton.jit
def add_kernel(x_ptr, # *Pointer* to first input vector.
    y_ptr, # *Pointer* to second input vector.
    output_ptr, # *Pointer* to output vector.
    n_elements,
    BLOCK_SIZE: tl.constexpr,
    ):
    pid = tl.program_id(axis=0)
    block_start = pid * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    output = x + y
    tl.store(output_ptr + offsets, output, mask=mask)
def add(x: torch.Tensor, y: torch.Tensor):
    output = torch.empty_like(x)
    assert x.is_cuda and y.is_cuda and output.is_cuda
    n_elements = output.numel()
    grid = lambda meta: (triton.cdiv(n_elements, meta['BLOCK_SIZE']), )
    triton_kernel=add_kernel[grid](x, y, output, n_elements, BLOCK_SIZE=1024)
    torch.cuda.synchronize()
    # Save compilation stages - some of the stages identified here are specific to NVIDIA devices:
    with open('triton_IR.txt', 'w') as f:
        print(triton_kernel.asm['ttir'], file=f)
    with open('triton_TTGIR.txt', 'w') as f:
        print(triton_kernel.asm['ttgir'], file=f)
    with open('triton_LLVMIR.txt', 'w') as f:
        print(triton_kernel.asm['llir'], file=f)
    with open('triton_PTX.ptx', 'w') as f:
        print(triton_kernel.asm['ptx'], file=f)
    with open('triton_cubin.txt', 'w') as f:
        print(triton_kernel.asm['cubin'], file=f)
    return output
torch.manual_seed(0)
size = 98432
x = torch.rand(size, device='cuda')
y = torch.rand(size, device='cuda')
output_torch = x + y
output_triton = add(x, y)
print(output_torch)
print(output_triton)
print(f'The maximum difference between torch and triton is '
f'{torch.max(torch.abs(output_torch - output_triton))}')
"""
FILES = (
    "triton_IR.txt",
    "triton_TTGIR.txt",
    "triton_LLVMIR.txt",
    "triton_PTX.ptx",
    "triton_cubin.txt",
)
TTIR = """\
module {
tt.func public @add_kernel(%arg0: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("/u/saraks/triton_blog/01-vector-add.py":28:0), %arg1: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("/u/saraks/triton_blog/01-vector-add.py":28:0), %arg2: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("/u/saraks/triton_blog/01-vector-add.py":28:0), %arg3: i32 {tt.divisibility = 16 : i32} loc("/u/saraks/triton_blog/01-vector-add.py":28:0)) attributes {noinline = false} {
%c1024_i32 = arith.constant 1024 : i32 loc(#loc1)
%0 = tt.get_program_id x : i32 loc(#loc2)
%1 = arith.muli %0, %c1024_i32 : i32 loc(#loc3)
%2 = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32> loc(#loc4)
%3 = tt.splat %1 : i32 -> tensor<1024xi32> loc(#loc5)
%4 = arith.addi %3, %2 : tensor<1024xi32> loc(#loc5)
%5 = tt.splat %arg3 : i32 -> tensor<1024xi32> loc(#loc6)
%6 = arith.cmpi slt, %4, %5 : tensor<1024xi32> loc(#loc6)
%7 = tt.splat %arg0 : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>> loc(#loc7)
%8 = tt.addptr %7, %4 : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32> loc(#loc7)
%9 = tt.load %8, %6 : tensor<1024x!tt.ptr<f32>> loc(#loc8)
%10 = tt.splat %arg1 : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>> loc(#loc9)
%11 = tt.addptr %10, %4 : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32> loc(#loc9)
%12 = tt.load %11, %6 : tensor<1024x!tt.ptr<f32>> loc(#loc10)
%13 = arith.addf %9, %12 : tensor<1024xf32> loc(#loc11)
%14 = tt.splat %arg2 : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>> loc(#loc12)
%15 = tt.addptr %14, %4 : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32> loc(#loc12)
tt.store %15, %13, %6 : tensor<1024x!tt.ptr<f32>> loc(#loc13)
tt.return loc(#loc14)
} loc(#loc)
} loc(#loc)
"""
TTGIR = """\
#blocked = #triton_gpu.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"triton_gpu.num-ctas" = 1 : i32, "triton_gpu.num-warps" = 4 : i32, triton_gpu.target = "cuda:70", "triton_gpu.threads-per-warp" = 32 : i32} {
tt.func public @add_kernel(%arg0: !tt.ptr<f32> {tt.divisibility = 16 : i32}
%9 = tt.load %8, %6 : tensor<1024x!tt.ptr<f32>, #blocked>
%12 = tt.load %11, %6 : tensor<1024x!tt.ptr<f32>, #blocked>
%13 = arith.addf %9, %12 : tensor<1024xf32, #blocked>
tt.store %15, %13, %6 : tensor<1024x!tt.ptr<f32>, #blocked>
"""
LLVM_IR = """\
%19 = extractvalue { i32, i32, i32, i32 } %18, 0, !dbg !16
%39 = extractvalue { i32, i32, i32, i32 } %38, 0, !dbg !18
%23 = bitcast i32 %19 to float, !dbg !16
%43 = bitcast i32 %39 to float, !dbg !18
%56 = fadd float %23, %43, !dbg !19
"""
PTX = "add.f32 %f17, %f1, %f9\n"
