"""Four texts about Triton from which this course began: their commands and listings, through this repository's tools.

1. Flash attention exported to C with `compile.py` and `link.py`, and called from C++.
2. The same text once more, with its blocks marked. Nothing in it differs.
3. Triton's compile and serving workflow.
4. The compilation stages of a vector add.

What today's Triton does not take as it was written stands in DEVIATIONS alone: `today` makes a listing of that time run now.
Indentation that a page has lost is put back.
"""

import ctypes
import inspect
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from course import MODE, aot, handed, lower, specialise, stock
from course.aot import fake_driver as standin
from course.aot.c_compiler import include_folder
from tests.support.processes import python_path

ROOT = Path(__file__).parents[2]


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


# 1 and 2. Export to C.

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


@pytest.fixture
def folder(tmp_path):
    """A folder with the kernel in a file of the text's name."""
    shutil.copy(ROOT / "kernels" / "flash_attention_export.py", tmp_path / "fmha_triton.py")
    return tmp_path


def shell(script, folder, fails=False):
    """Run commands of a shell in a folder, with this Python and its packages; return what they print.

    fails: whether they must fail; then what they say on stderr is returned.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path, "PYTHONPATH": python_path()}
    environ.pop("TRITON_INTERPRET", None)  # CPU mode's, which a shell of a reader's does not have
    done = subprocess.run(
        ["bash", "-ec", script], cwd=folder, env=environ, capture_output=True, text=True
    )
    assert bool(done.returncode) is fails, done.stdout + done.stderr
    return done.stderr if fails else done.stdout


def tree(folder):
    """The files of C below aot/."""
    return sorted(
        str(path.relative_to(folder / "aot")) for path in (folder / "aot").rglob("*.[ch]")
    )


def drawn(text):
    """The files in a drawing of a tree."""
    found, below = [], ""
    for line in text.splitlines()[1:]:
        name = line.lstrip("│├└─ ")
        if line.startswith("    "):
            found.append(f"{below}/{name}")
        elif "." in name:
            found.append(name)
        else:
            below = name
    return sorted(found)


def export_texts(deviations=EXPORT):
    """The signature and the grid of the text's command."""
    command = today(COMPILE, deviations).replace("\\\n", "")
    return re.search(r'-s "(.*?)"', command)[1], re.search(r'-g "(.*?)"', command)[1]


def test_every_deviation_is_of_something_that_a_text_has():
    texts = {
        "export": SET_UP + COMPILE + LINK + TREE + KERNEL + CALL + " ".join(FLAGS),
        "stock": COMPILE + TREE,
        "workflow": WORKFLOW_TEXT + PYTHON_KERNEL,
        "stages": SCRIPT + TTIR + TTGIR + LLVM_IR + PTX,
    }
    for name, deviations in DEVIATIONS.items():
        for each in deviations:
            assert each.has in texts[name], each
            assert each.why


def test_the_kernel_is_declared_as_in_the_text():
    from kernels.flash_attention_export import _fwd_kernel

    first, last = (
        re.findall(r"\b[A-Z]\w*|\b[a-z_]\w+\b(?!\.)", part)
        for part in KERNEL.split("(", 1)[1].split("... ,")
    )
    last = [name for name in last if name not in ("tl", "constexpr")]
    names = list(inspect.signature(_fwd_kernel.fn).parameters)
    assert names[: len(first)] == first
    at = names.index(last[0])
    assert names[at : at + len(last)] == last
    assert names[at + len(last) :] == []


def test_the_texts_commands_give_the_texts_tree_of_files(folder):
    shell(today(SET_UP + COMPILE + LINK, EXPORT), folder)
    assert tree(folder) == drawn(today(TREE, EXPORT))


def test_tritons_own_linker_runs_as_it_was_written_on_what_its_own_compiler_wrote(folder):
    from kernels.flash_attention_export import _fwd_kernel

    signature, grid = export_texts(STOCK)
    out = folder / "aot/fp16/fmha_kernel_d64_fp16"
    stock.compile(
        _fwd_kernel, signature, grid, name="fmha_d64_fp16", out=out, num_warps=4, num_stages=1
    )
    shell(SET_UP.splitlines()[0] + "\n" + LINK, folder)
    assert tree(folder) == drawn(today(TREE, STOCK))
    assert (
        "fmha_d64_fp16_default(TT_StreamTy stream"
        in (folder / "aot" / "fmha_kernel_fp16.h").read_text()
    )


def test_every_flag_of_the_text_is_one_of_ours(folder):
    said = shell("python -m course aot compile --help", folder)
    assert [flag for flag in FLAGS if not re.search(rf"(?<![\w-]){flag}(?![\w-])", said)] == []


def launch_from_cpp(folder):
    """The one launch of main.cpp there, built with the C under aot/ and run on the stand-in."""
    library = standin.path()
    shell(
        f"""
        gcc -O2 -c -isystem {include_folder()} aot/*.c aot/fp16/*.c
        g++ -Wall -Werror -isystem {include_folder()} -Iaot main.cpp *.o -o main -l:libcuda.so.1 -L{library.parent}
        LD_LIBRARY_PATH={library.parent} {standin.LOG}=calls ./main
        """,
        folder,
    )
    (launch,) = [
        each for each in standin.calls_in(folder / "calls") if each.name == "cuLaunchKernel"
    ]
    return launch


def test_the_texts_call_from_cpp_hands_the_driver_what_it_says(folder):
    shell(today(SET_UP + COMPILE + LINK, EXPORT), folder)
    (folder / "main.cpp").write_text(CALLER.replace("CALL", today(CALL, EXPORT)))
    launch = launch_from_cpp(folder)
    assert launch.grid == (2, 2 * 3, 1)
    numbers = [int.from_bytes(each, "little") for each in launch.arguments]
    assert numbers[:6] == [0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0]
    assert launch.arguments[6] == bytes(ctypes.c_float(0.125))
    assert numbers[7:9] == [2, 3]
    assert numbers[9:21] == [3 * 64 * 130, 64, 64 * 3] * 4
    assert numbers[21:28] == [130, 130, 256, 64, 0, 0, 1]


@pytest.mark.skipif(MODE.gpu, reason="a GPU is there")
def test_tritons_own_compiler_wants_a_gpu(folder):
    script = today(SET_UP + COMPILE, STOCK)
    assert "0 active drivers" in shell(script, folder, fails=True)


@pytest.mark.gpu
def test_the_texts_commands_run_as_they_were_written_where_there_is_a_gpu(folder):
    shell(today(SET_UP + COMPILE + LINK, STOCK), folder)
    assert tree(folder) == drawn(today(TREE, STOCK))


# 3. The workflow.

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


@pytest.fixture
def kernel_of(tmp_path):
    """A kernel from its text, in a file, as Triton wants it."""

    def kernel_of(text, name):
        path = tmp_path / f"{name}.py"
        path.write_text(f"import triton\nimport triton.language as tl\n\n{text}")
        found = {"__name__": name}
        exec(compile(path.read_text(), str(path), "exec"), found)
        return found[name]

    return kernel_of


def test_the_listed_kernel_goes_through_the_listed_stages(kernel_of):
    stages = lower(kernel_of(today(PYTHON_KERNEL, WORKFLOW), "mha"), target="sm_90")
    for line in WORKFLOW_TEXT.splitlines()[:5]:
        assert not hasattr(triton.compiler, re.search(r"compiler\.(\w+)", line)[1])
        assert getattr(stages, re.search(r"lower\(…\)\.(\w+)", today(line, WORKFLOW))[1])


def test_the_defaults_are_the_listed_ones(kernel_of):
    options = lower(kernel_of(today(PYTHON_KERNEL, WORKFLOW), "mha"), target="sm_90").metadata[
        "options"
    ]
    assert (options["num_warps"], options["num_stages"], options["warp_size"]) == (4, 3, 32)
    assert inspect.signature(aot.export).parameters["num_warps"].default == 4


def test_the_language_has_what_is_listed():
    names = today(WORKFLOW_TEXT.splitlines()[-1], WORKFLOW).split()
    assert [name for name in names if not hasattr(tl, name)] == []
    assert hasattr(tl.tensor, "to")
    for function in (tl.load, tl.store):
        assert inspect.signature(function).parameters["mask"].default is None


def test_a_function_can_return_tensors_and_a_kernel_returns_none(kernel_of):
    text = """\
@triton.jit
def twice(x):
    return x + x, x

@triton.jit
def mha(x_ptr):
    doubled, x = twice(tl.load(x_ptr + tl.arange(0, 16)))
    tl.store(x_ptr + tl.arange(0, 16), doubled + x)
"""
    assert lower(kernel_of(text, "mha"), "*fp32:16", target="sm_90").cubin


def test_an_argument_is_a_pointer_or_a_constant_and_its_type_comes_with_the_call():
    x = torch.empty(8)
    found = specialise(add_kernel(), x, x, x, 8, BLOCK_SIZE=16)
    assert [each.type for each in found.parameters] == [
        "*fp32",
        "*fp32",
        "*fp32",
        "i32",
        "constexpr",
    ]


def test_serving_the_machine_code_is_text_in_a_source_that_loads_and_launches_it(tmp_path):
    exported = aot.export(
        add_kernel(),
        "*fp32, *fp32, *fp32, i32, 1024",
        "cdiv(n_elements, BLOCK_SIZE)",
        "add",
        tmp_path / "add",
    )
    text = exported.sources[0].read_text()
    listed = re.search(r"cubin\[\][^{]*\{(.*?)\}", text, re.S)[1]
    assert bytes(int(number, 16) for number in re.findall(r"0x\w\w", listed)).startswith(b"\x7fELF")
    name = exported.functions[0].name
    assert f"CUresult load_{name}(void)" in text  # what an op's constructor calls
    assert f"CUresult {name}(CUstream stream, " in text  # and its functor
    x = torch.empty(98432)
    assert handed(aot.build(exported), x, x, x, 98432).grid == (97, 1, 1)


# 4. The stages of a vector add.

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
HELPER = """\
from course import DEVICE, lower
class Stages:
    def __init__(self, found):
        self.asm = {name: getattr(found, name) for name in ('ttir', 'ttgir', 'llir', 'ptx', 'cubin')}
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


def add_kernel():
    from kernels.vector_add import add_kernel

    return add_kernel


def plain(text):
    """IR with numbers for the names of values, without locations and debug notes."""
    text = re.sub(r"\s*loc\((?:[^()]|\([^()]*\))*\)|, !dbg !\d+", "", text)
    text = re.sub(r"%[a-zA-Z_]\w*(?= *(?:=|,|:|\)|$))|%\d+|%\w+", "%", text)
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]


@pytest.fixture(scope="module")
def run_script(tmp_path_factory):
    """The text's script, run once in a folder of its own: the folder and what it printed."""
    folder = tmp_path_factory.mktemp("vector_add")
    (folder / "vector_add.py").write_text(HELPER + today(SCRIPT, STAGES))
    return folder, shell("COURSE_MODE=cpu python vector_add.py", folder)


def test_the_script_runs_and_its_sums_agree(run_script):
    _, printed = run_script
    assert printed.endswith("The maximum difference between torch and triton is 0.0\n")


def test_the_script_saves_five_stages(run_script):
    folder, _ = run_script
    assert [name for name in FILES if not (folder / name).read_text().strip()] == []


def test_the_listed_ttir_is_what_comes_today(run_script):
    folder, _ = run_script
    found = plain((folder / FILES[0]).read_text())
    start = found.index("module {")
    assert found[start : start + len(TTIR.splitlines())] == plain(today(TTIR, STAGES))


def test_the_listed_ttgir_is_what_comes_today(kernel_of):
    kernel = kernel_of(
        SCRIPT.split("import triton.language as tl\n")[1].split("def add(")[0], "add_kernel"
    )
    found = plain(lower(kernel, *["*fp32:16"] * 3, "i32:16", BLOCK_SIZE=1024, target="sm_70").ttgir)
    missing = [
        line
        for line in plain(today(TTGIR, STAGES))
        if not any(each.startswith(line) for each in found)
    ]
    assert missing == []


def test_the_listed_llvm_ir_and_ptx_are_what_comes_today(kernel_of):
    kernel = kernel_of(
        SCRIPT.split("import triton.language as tl\n")[1].split("def add(")[0], "add_kernel"
    )
    stages = lower(kernel, *["*fp32:16"] * 3, "i32:16", BLOCK_SIZE=1024, target="sm_70")
    found = plain(stages.llir)
    assert [line for line in plain(today(LLVM_IR, STAGES)) if line not in found] == []
    add = re.escape(today(PTX, STAGES).strip()).replace("%r", r"%r\d+").replace(r"\ ", r"\s+")
    assert re.search(add, stages.ptx)


@pytest.mark.gpu
def test_the_script_runs_as_it_was_written_where_there_is_a_gpu(tmp_path):
    (tmp_path / "vector_add.py").write_text(SCRIPT)
    printed = shell("python vector_add.py", tmp_path)
    assert printed.endswith("The maximum difference between torch and triton is 0.0\n")
    assert [name for name in FILES if not (tmp_path / name).read_text().strip()] == []
