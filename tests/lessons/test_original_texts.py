"""Four texts about Triton from which this course began, through this repository's tools.

See tests/support/original_texts.py.
"""

import ctypes
import inspect
import re
import shutil
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from course import MODE, aot, handed, lower, specialize, stock
from tests.support import original_texts as texts
from tests.support.lesson import script_of
from tests.support.original_texts import EXPORT, STAGES, STOCK, WORKFLOW, today
from tests.support.shell import launch_from_cpp, shell

ROOT = Path(__file__).parents[2]
COMMANDS = texts.SET_UP + texts.COMPILE + texts.LINK
HELPER = """\
from course import DEVICE, lower
class Stages:
    def __init__(self, lowered):
        names = ('ttir', 'ttgir', 'llir', 'ptx', 'cubin')
        self.asm = {name: getattr(lowered, name) for name in names}
"""


def add_kernel():
    from kernels.vector_add import add_kernel

    return add_kernel


# 1 and 2. Export to C.


def copied(folder):
    """The folder, with the kernel in a file of the text's name."""
    shutil.copy(ROOT / "kernels" / "attention" / "export.py", folder / "fmha_triton.py")
    return folder


@pytest.fixture
def folder(tmp_path):
    return copied(tmp_path)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder in which the text's commands have run."""
    folder = copied(tmp_path_factory.mktemp("exported"))
    shell(today(COMMANDS, EXPORT), folder)
    return folder


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
    command = today(texts.COMPILE, deviations).replace("\\\n", "")
    return re.search(r'-s "(.*?)"', command)[1], re.search(r'-g "(.*?)"', command)[1]


def test_every_deviation_is_of_something_that_a_text_has():
    export = COMMANDS + texts.TREE + texts.KERNEL + texts.CALL + " ".join(texts.FLAGS)
    originals = {
        "export": export,
        "stock": texts.COMPILE + texts.TREE,
        "workflow": texts.WORKFLOW_TEXT + texts.PYTHON_KERNEL,
        "stages": texts.SCRIPT + texts.TTIR + texts.TTGIR + texts.LLVM_IR + texts.PTX,
    }
    for name, deviations in texts.DEVIATIONS.items():
        for deviation in deviations:
            assert deviation.has in originals[name], deviation
            assert deviation.why


def test_the_kernel_is_declared_as_in_the_text():
    from kernels.attention.export import _fwd_kernel

    first, last = (
        re.findall(r"\b[A-Z]\w*|\b[a-z_]\w+\b(?!\.)", part)
        for part in texts.KERNEL.split("(", 1)[1].split("... ,")
    )
    last = [name for name in last if name not in ("tl", "constexpr")]
    names = list(inspect.signature(_fwd_kernel.fn).parameters)
    assert names[: len(first)] == first
    at = names.index(last[0])
    assert names[at : at + len(last)] == last
    assert names[at + len(last) :] == []


def test_the_texts_commands_give_the_texts_tree_of_files(exported):
    assert tree(exported) == drawn(today(texts.TREE, EXPORT))


def test_tritons_own_linker_runs_as_it_was_written_on_what_its_own_compiler_wrote(folder):
    from kernels.attention.export import _fwd_kernel

    signature, grid = export_texts(STOCK)
    out = folder / "aot/fp16/fmha_kernel_d64_fp16"
    stock.compile(
        _fwd_kernel, signature, grid, name="fmha_d64_fp16", out=out, num_warps=4, num_stages=1
    )
    shell(texts.SET_UP.splitlines()[0] + "\n" + texts.LINK, folder)
    assert tree(folder) == drawn(today(texts.TREE, STOCK))
    header = (folder / "aot" / "fmha_kernel_fp16.h").read_text()
    assert "fmha_d64_fp16_default(TT_StreamTy stream" in header


def test_every_flag_of_the_text_is_one_of_ours(folder):
    said = shell("python -m course aot compile --help", folder)
    for flag in texts.FLAGS:
        assert re.search(rf"(?<![\w-]){flag}(?![\w-])", said), flag


@pytest.mark.compiler
def test_the_texts_call_from_cpp_hands_the_driver_what_it_says(exported):
    main = texts.CALLER.replace("CALL", today(texts.CALL, EXPORT))
    (exported / "main.cpp").write_text(main)
    launch = launch_from_cpp(exported)
    assert launch.grid == (2, 2 * 3, 1)
    numbers = [int.from_bytes(each, "little") for each in launch.arguments]
    assert numbers[:6] == [0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0]
    assert launch.arguments[6] == bytes(ctypes.c_float(0.125))
    assert numbers[7:9] == [2, 3]
    assert numbers[9:21] == [3 * 64 * 130, 64, 64 * 3] * 4
    assert numbers[21:28] == [130, 130, 256, 64, 0, 0, 1]


@pytest.mark.skipif(MODE.gpu, reason="needs CPU mode")
def test_tritons_own_compiler_wants_a_gpu(folder):
    script = today(texts.SET_UP + texts.COMPILE, STOCK)
    assert "0 active drivers" in shell(script, folder, fails=True)


@pytest.mark.gpu
def test_the_texts_commands_run_as_they_were_written_where_there_is_a_gpu(folder):
    shell(today(COMMANDS, STOCK), folder)
    assert tree(folder) == drawn(today(texts.TREE, STOCK))


@pytest.fixture
def kernel_of(tmp_path):
    """A kernel from its text, in a file, as Triton wants it."""

    imports = "import triton\nimport triton.language as tl"
    return lambda text, name: vars(script_of(tmp_path, imports, text))[name]


@pytest.fixture
def mha(kernel_of):
    """The text's kernel, through our stages."""
    return lower(kernel_of(today(texts.PYTHON_KERNEL, WORKFLOW), "mha"), target="sm_90")


def test_the_listed_kernel_goes_through_the_listed_stages(mha):
    for line in texts.WORKFLOW_TEXT.splitlines()[:5]:
        assert not hasattr(triton.compiler, re.search(r"compiler\.(\w+)", line)[1])
        stage = re.search(r"lower\(…\)\.(\w+)", today(line, WORKFLOW))[1]
        assert getattr(mha, stage)


def test_the_defaults_are_the_listed_ones(mha):
    options = mha.metadata["options"]
    assert (options["num_warps"], options["num_stages"], options["warp_size"]) == (4, 3, 32)
    assert inspect.signature(aot.export).parameters["num_warps"].default == 4


def test_the_language_has_what_is_listed():
    names = today(texts.WORKFLOW_TEXT.splitlines()[-1], WORKFLOW).split()
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
    parameters = specialize(add_kernel(), x, x, x, 8, BLOCK_SIZE=16).parameters
    assert [each.type for each in parameters] == [*["*fp32"] * 3, "i32", "constexpr"]


@pytest.mark.compiler
def test_serving_the_machine_code_is_text_in_a_source_that_loads_and_launches_it(tmp_path):
    signature, grid = "*fp32, *fp32, *fp32, i32, 1024", "cdiv(n_elements, BLOCK_SIZE)"
    exported = aot.export(add_kernel(), signature, grid, "add", tmp_path / "add")
    text = exported.sources[0].read_text()
    listed = re.search(r"cubin\[\][^{]*\{(.*?)\}", text, re.S)[1]
    assert bytes(int(number, 16) for number in re.findall(r"0x\w\w", listed)).startswith(b"\x7fELF")
    name = exported.functions[0].name
    assert f"CUresult load_{name}(void)" in text  # what an op's constructor calls
    assert f"CUresult {name}(CUstream stream, " in text  # and its functor
    x = torch.empty(98432)
    assert handed(aot.build(exported), x, x, x, 98432).grid == (97, 1, 1)


# 4. The stages of a vector add.


def plain(text):
    """IR with numbers for the names of values, without locations and debug notes."""
    text = re.sub(r"\s*loc\((?:[^()]|\([^()]*\))*\)|, !dbg !\d+", "", text)
    text = re.sub(r"%[a-zA-Z_]\w*(?= *(?:=|,|:|\)|$))|%\d+|%\w+", "%", text)
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]


@pytest.fixture(scope="module")
def run_script(tmp_path_factory):
    """The text's script, run once in a folder of its own: the folder and what it printed."""
    folder = tmp_path_factory.mktemp("vector_add")
    (folder / "vector_add.py").write_text(HELPER + today(texts.SCRIPT, STAGES))
    return folder, shell("COURSE_MODE=cpu python vector_add.py", folder)


def test_the_script_runs_and_its_sums_agree(run_script):
    _, printed = run_script
    assert printed.endswith("The maximum difference between torch and triton is 0.0\n")


def test_the_script_saves_five_stages(run_script):
    folder, _ = run_script
    assert [name for name in texts.FILES if not (folder / name).read_text().strip()] == []


def test_the_listed_ttir_is_what_comes_today(run_script):
    folder, _ = run_script
    lines = plain((folder / texts.FILES[0]).read_text())
    listed, start = plain(today(texts.TTIR, STAGES)), lines.index("module {")
    assert lines[start : start + len(listed)] == listed


@pytest.fixture
def listed_kernel(kernel_of):
    """The stages of the kernel alone, for the GPU of that time."""
    text = texts.SCRIPT.split("import triton.language as tl\n")[1].split("def add(")[0]
    types = [*["*fp32:16"] * 3, "i32:16"]
    return lower(kernel_of(text, "add_kernel"), *types, BLOCK_SIZE=1024, target="sm_70")


def test_the_listed_ttgir_is_what_comes_today(listed_kernel):
    lines = plain(listed_kernel.ttgir)
    for listed in plain(today(texts.TTGIR, STAGES)):
        assert any(line.startswith(listed) for line in lines), listed


def test_the_listed_llvm_ir_and_ptx_are_what_comes_today(listed_kernel):
    lines = plain(listed_kernel.llir)
    for listed in plain(today(texts.LLVM_IR, STAGES)):
        assert listed in lines
    add = re.escape(today(texts.PTX, STAGES).strip())
    assert re.search(add.replace("%r", r"%r\d+").replace(r"\ ", r"\s+"), listed_kernel.ptx)


@pytest.mark.gpu
def test_the_script_runs_as_it_was_written_where_there_is_a_gpu(tmp_path):
    (tmp_path / "vector_add.py").write_text(texts.SCRIPT)
    printed = shell("python vector_add.py", tmp_path)
    assert printed.endswith("The maximum difference between torch and triton is 0.0\n")
    assert [name for name in texts.FILES if not (tmp_path / name).read_text().strip()] == []
