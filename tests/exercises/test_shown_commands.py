"""What the notebooks on C show as text, and run in no cell: commands, and a call from C++."""

import ctypes
import re
from pathlib import Path

import pytest

from tests.support.shell import launch_from_cpp, shell

ROOT = Path(__file__).parents[2]

FLAGS = {"w": "num_warps", "ns": "num_stages"}
NOTEBOOK = (ROOT / "solutions" / "28-inside-a-c-program.py").read_text()
MAIN = """\
INCLUDE

int main() {
    CUdevice device; CUcontext context; CUstream stream = 0;
    if (cuInit(0) || cuDeviceGet(&device, 0)) return 2;
    if (cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context)) return 2;
    CUdeviceptr q = 0x1000, k = 0x2000, v = 0x3000, out = 0x4000, lse = 0x5000;
    float scale = 0.125f;
    int batch = 2, heads = 3, length = 130;
    CALL
    return result != CUDA_SUCCESS;
}
"""


def block(language):
    """The notebook's first block in a language: the export in "sh", the call in "cpp"."""
    found, *_ = re.findall(rf"^# ```{language}\n(.*?)^# ```$", NOTEBOOK, re.M | re.S)
    return re.sub(r"^# ?", "", found, flags=re.M)


def in_full(text):
    """A text of the notebook with all twelve strides in place of its "…"."""
    assert text.count("i32:16, i32:16, …, ") == 1
    return text.replace("i32:16, i32:16, …, ", "i32:16, " * 12)


@pytest.mark.compiler
def test_the_commands_make_what_the_notebooks_call_from_cpp_takes(tmp_path):
    commands = block("sh")
    commands = in_full(commands).replace("kernels/", f"{ROOT}/kernels/")
    include, call = block("cpp").split("\n", 1)
    (tmp_path / "main.cpp").write_text(MAIN.replace("INCLUDE", include).replace("CALL", call))
    shell(commands.replace("course aot", "python -m course aot"), tmp_path)
    launch = launch_from_cpp(tmp_path)
    assert launch.grid == (2, 2 * 3, 1)
    numbers = [int.from_bytes(each, "little") for each in launch.arguments]
    assert numbers[:6] == [0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0]
    assert launch.arguments[6] == bytes(ctypes.c_float(0.125))
    assert numbers[7:28] == [2, 3, *[3 * 130 * 64, 130 * 64, 64] * 4, 130, 130, 130, 64, 0, 0, 1]


def test_the_notebooks_signature_is_the_one_of_its_command():
    command = re.search(r'-s "(.*?)"', in_full(block("sh")), re.S)[1].replace("\\\n", "")
    (cell,) = [text for text in NOTEBOOK.split("\n# %%") if "\nsignature = f" in text]
    (before,) = [text for text in NOTEBOOK.split("\n# %%") if "\npointers, strides = " in text]
    names: dict = {}
    exec(before[: before.index("second_try = ")].split("\n", 1)[1], names)
    exec(cell[: cell.index("\nname, ")].split("\n", 1)[1], names)
    assert command == names["signature"]
    assert all(f"-{flag} {names['options'][name]}" in block("sh") for flag, name in FLAGS.items())
