"""What "Without Python" says of exported attention is so: loads, stack, pipeline, what v3 costs."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import triton

from course.aot import fake_driver
from course.benching.result import recorded
from course.lowering.api import lower_file
from kernels.attention.settings import Settings, settings_for
from tests.support.lesson import Lesson, script_of

LESSON = Lesson("Without Python")
KERNEL = "kernels/attention/export.py"


@pytest.fixture(scope="module")
def signatures():
    """The lesson's three signatures of _fwd_kernel, by their names, as lists of parts."""
    names = {}
    for line in "\n".join(LESSON.code).splitlines():
        if re.match(r"(first_try|pointers|constants|second_try|signature) ?[+,=]", line):
            exec(line, names)
    keys = {"first": "first_try", "second": "second_try", "last": "signature"}
    return {key: [part.strip() for part in names[name].split(",")] for key, name in keys.items()}


def lowered(signature, num_warps):
    return lower_file(KERNEL, "_fwd_kernel", signature, "sm_90", num_warps=num_warps, num_stages=3)


def test_the_signature_that_is_one_word_short_pipelines_nothing(signatures):
    """And with that word q and three stages of k and v lie in shared memory, as the lesson adds."""
    pairs = zip(signatures["second"], signatures["last"], strict=True)
    assert [pair for pair in pairs if pair[0] != pair[1]] == [("i32", "i32:16")]
    second, last = (lowered(signatures[name], 8) for name in ("second", "last"))
    assert second.counts["ptx"]["asynchronous copies"] == 0
    assert second.counts["ptx"]["vectorized global loads"] == 0
    assert last.counts["ptx"]["asynchronous copies"] > 0
    counts = last.counts["ptx"]
    assert counts["global loads"] == counts["vectorized global loads"] == 4
    tile, stage = 128 * 64 * 2, 2 * 64 * 64 * 2
    assert (tile, stage // 2) == (16_384, 8_192)
    assert last.resources.shared_bytes == tile + 3 * stage == 65_536
    assert last.resources.spill_bytes == second.resources.spill_bytes == 0
    assert "16,384 + 3 x 16,384 = 65,536" in LESSON.flat


def test_the_first_attempt_spills_and_holds_one_tile_of_keys(signatures):
    first = lowered(signatures["first"], 4)
    assert first.resources.spill_bytes > 0 and first.resources.registers == 255
    assert first.counts["ptx"]["asynchronous copies"] == 0
    assert first.resources.shared_bytes == 2 * 16_384


def test_the_last_attempt_has_the_settings_of_v3(signatures):
    assert settings_for(64, 227) == Settings(128, 64, 8, 3)
    assert signatures["last"][-2:] == ["128", "64"]


def test_v3_takes_as_much_longer_than_v5_as_the_lesson_says():
    result = recorded("flash_attention_128")
    v3, v5 = (
        {t.x: t.ms for t in result.of(name)} for name in ("flash_attention_v3", "flash_attention")
    )
    ratios = [v3[length] / v5[length] for length in sorted(v5)]
    assert f"between {min(ratios):.2f} and {max(ratios):.2f} times as long" in LESSON.flat
    assert ratios[-1] == min(ratios) and ratios[0] == max(ratios)


INSIDE = LESSON.text.split("# 28 · ")[1]
MAIN = """
#include <cstdio>
#include <cstdlib>
#define fmha_sm90_default fmha_d64_fp16_default
#define fmha_sm80_default fmha_d64_fp16_default

static void must(CUresult result) {{
    const char *sentence = "";
    if (result == CUDA_SUCCESS) return;
    cuGetErrorString(result, &sentence);
    std::puts(sentence);
    std::exit(1);
}}

int main() {{
    const int batch = 2, heads = 3, length = 130;
    const float scale = 0.125f;
    const CUdeviceptr q = 4096, k = q, v = q, out = q, lse = q;
    const CUstream stream = 0;
    {context}
    {several}
    {call}
    must(result);
    std::puts(fmha == fmha_d64_fp16_default ? "launched" : "another");
}}
"""


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", INSIDE, re.MULTILINE | re.DOTALL)


OTHER = re.compile(r'out="aot/tries/(multiply|both|linked|wider|all)"')
OF_ATTENTION = re.compile(
    r"(attention_grid|pointers|constants|signature|name|fmha|fmha_linked)\b.* = "
)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder in which the lesson's cells have exported what its program includes, and something
    else besides; the fake driver stands in for the driver."""
    folder = tmp_path_factory.mktemp("project")
    (scale,) = {cell[cell.index("@triton.jit") :] for cell in LESSON.code if "def scale_" in cell}
    lines = [cell for cell in LESSON.code if OTHER.search(cell) and "handed(" not in cell]
    for cell in LESSON.code[LESSON.code.index(lines[-1]) :]:
        lines += [line for line in cell.splitlines() if OF_ATTENTION.match(line)]
    with contextlib.chdir(folder):
        names = vars(script_of(folder, LESSON.imports, scale))
        for text in lines:
            exec(text, names)
    include, call = blocks("cpp")[0].split("\n\n", 1)
    context, several = blocks("cpp")[1:]
    main = MAIN.format(context=context, several=several, call=call)
    (folder / "main.cpp").write_text(include + main)
    (folder / "libcuda.so").symlink_to(fake_driver.path())
    return folder


def built(command, folder):
    environ = {
        "LIBRARY_PATH": str(folder),
        "LD_LIBRARY_PATH": str(fake_driver.path().parent),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    ended = subprocess.run(
        ["bash", "-ec", command], cwd=folder, env=os.environ | environ, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.compiler
def test_the_shells_lines_build_the_program_in_the_lessons_own_folder(project):
    (lines,) = [block for block in blocks("bash") if "-o server" in block]
    assert built(f"{lines}./server", project) == "launched\n"
    assert list((project / "aot" / "tries").glob("*.c"))  # what the other cells left there


@pytest.mark.compiler
@pytest.mark.skipif(not shutil.which("cmake"), reason="needs cmake: apt-get install cmake")
def test_cmakes_lines_build_it_too(project):
    (lines,) = blocks("cmake")
    (project / "CMakeLists.txt").write_text(lines)
    include = Path(triton.__path__[0]) / "backends" / "nvidia" / "include"
    commands = f"cmake -B made -DTRITON_INCLUDE={include}; cmake --build made; ./made/server"
    assert built(commands, project).endswith("launched\n")
