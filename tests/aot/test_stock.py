"""Triton's own ahead-of-time tools beside ours: what they can use of our files, and the faults that
ours do not have.

A test here that fails with a new Triton is good news: the fault is mended, and the course may say
so.
"""

import ctypes
import os
import re
import struct
import subprocess
from pathlib import Path

import pytest
import torch
import triton

import course
from course import aot, stock
from course.aot import fake_driver
from course.aot.c_compiler import compile_library, include_folder
from course.isolate.pool import call
from tests.support import aot_kernels as kernels
from tests.support import aot_tasks

# One process can use the fake driver or the real driver: in GPU mode tests/gpu/test_aot.py has it.
pytestmark = pytest.mark.skipif(
    course.MODE.gpu, reason="needs CPU mode: the fake driver is tested in CPU mode"
)

FILE = str(Path(kernels.__file__))
X = torch.zeros(8192)


def stock_compile(kernel, signature, grid, folder):
    """Triton's own C: the function's name, and the source."""
    compiled = stock.compile(f"{FILE}:{kernel}", signature, grid, "stock", folder / "stock", 4)
    return compiled.function, compiled.header.with_suffix(".c")


def stock_link(headers, out):
    ended = call(aot_tasks.stock_link, [*map(str, headers)], str(out), kind="compile")
    assert ended.how == "finished", ended.stderr
    return ended.value


def loaded(source):
    """Triton's C as a library. It is compiled as it stands: with warnings it would not pass."""
    compile_library([source], source.with_suffix(".so"), "-w")
    return ctypes.CDLL(str(source.with_suffix(".so")))


def test_tritons_linker_still_takes_argument_10_for_argument_1(tmp_path):
    signatures = [f"*fp32{hint}, {', '.join(['i32'] * 9)}, i32{hint}, 64" for hint in (":16", "")]
    made = aot.export(kernels.many_kernel, signatures, "1", "many", tmp_path / "many")
    assert re.search(
        "0d is not a valid kernel suffix|invalid extra suffix: 0d",
        stock_link(made.headers, tmp_path / "linked"),
    )


@pytest.mark.compiler
def test_tritons_c_still_declares_a_float_argument_double_and_the_kernel_reads_half_of_it(tmp_path):
    name, source = stock_compile(
        "scale_kernel", "*fp32, fp32, i32, 64, 0", "1, 1, 1", tmp_path / "stock"
    )
    assert "double scale" in source.read_text()
    made = aot.export(
        kernels.scale_kernel, "*fp32, fp32, i32, 64, 0", "1", "scale", tmp_path / "scale"
    )
    assert "float scale" in made.headers[0].read_text()
    exported = aot.load(aot.build(aot.link(made, tmp_path / "linked")), driver=fake_driver)
    library = loaded(source)
    with fake_driver.recorded() as calls:
        exported.scale(X, 0.1, 64)
        values = [ctypes.c_uint64(X.data_ptr()), ctypes.c_double(0.1), 64]
        assert exported._driver.call(0, library[name], None, *values) == 0
    ours, theirs = [call for call in calls if call.name == "cuLaunchKernel"]
    assert ours.arguments[1] == struct.pack("<f", 0.1)
    assert theirs.arguments[1] == struct.pack("<d", 0.1)[:4]  # some other number
    assert ours.arguments[0] == theirs.arguments[0] and ours.arguments[2] == theirs.arguments[2]
    assert {call.result for call in calls} == {0}


@pytest.mark.compiler
@pytest.mark.skipif(
    triton.__version__ < "3.7", reason="needs Triton 3.7: before, names were others"
)
def test_tritons_linker_links_our_headers(tmp_path):
    signatures = ["*fp32:16, *fp32:16, *fp32:16, i32:16, 1024", "*fp32, *fp32, *fp32, i32, 1024"]
    made = aot.export(kernels.add_kernel, signatures, "cdiv(n, BLOCK)", "add", tmp_path / "add")
    assert stock_link(made.headers, tmp_path / "stock_linked") == ""
    library = aot.load(aot.build(made), driver=fake_driver)  # for the driver
    sources = [tmp_path / "stock_linked.c", *made.sources]
    compile_library(sources, tmp_path / "stock.so", "-w", f"-I{tmp_path}")
    joined = ctypes.CDLL(str(tmp_path / "stock.so"))
    pointers = [ctypes.c_uint64(X.data_ptr())] * 3
    with fake_driver.recorded() as calls:
        for n in (4096, 4095):
            assert library._driver.call(0, joined.add_default, None, *pointers, n) == 0
    assert [call.grid for call in calls if call.name == "cuLaunchKernel"] == [(4, 1, 1), (4, 1, 1)]
    assert [call.name for call in calls].count("cuLibraryLoadData") == 2


def test_tritons_c_still_pastes_the_grid(tmp_path):
    _, source = stock_compile(
        "add_kernel", "*fp32, *fp32, *fp32, i32, 1024", "1; n = 7, 1, 1", tmp_path / "stock"
    )
    assert "unsigned int gX = 1; n = 7;" in source.read_text()


@pytest.mark.compiler
def test_tritons_c_runs_on_the_fake_driver_by_itself(tmp_path):
    """A program of its own, with Triton's C as it stands: modules and not libraries, device 0."""
    name, source = stock_compile(
        "add_kernel", "*fp32:16, *fp32:16, *fp32:16, i32, 1024", "n, 1, 1", tmp_path / "stock"
    )
    (tmp_path / "main.c").write_text(
        "#include <cuda.h>\n#include <stdint.h>\n"
        f"CUresult {name}(CUstream, CUdeviceptr, CUdeviceptr, CUdeviceptr, int32_t);\n"
        "int main(void) {\n"
        "CUcontext c; cuInit(0); cuDevicePrimaryCtxRetain(&c, 0); cuCtxSetCurrent(c);\n"
        f"return (int){name}(0, 0, 0, 0, 5); }}\n"
    )
    files = [str(tmp_path / "main.c"), str(source), str(fake_driver.path())]
    command = ["gcc", "-isystem", str(include_folder()), *files, "-o", str(tmp_path / "main")]
    subprocess.run(command, check=True, capture_output=True)
    with fake_driver.recorded() as calls:
        environ = {**os.environ, "LD_LIBRARY_PATH": str(fake_driver.path().parent)}
        assert subprocess.run([str(tmp_path / "main")], env=environ).returncode == 0
    names = [call.name for call in calls]
    assert names == ["cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel"]
    assert calls[-1].grid == (5, 1, 1)
