"""The samples: complete programs in C and C++ on the fake driver, and their comparison with
plain loops."""

import json
import os
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from course import aot
from course.aot import fake_driver
from course.aot.c.templates import BITS
from course.aot.c_compiler import include_folder
from course.aot.example_project import SPECS
from course.aot.manifest import promises_of, read_header
from course.cli import app
from course.errors import CourseError
from course.gpus.limits import target_of
from tests.support.processes import PATIENCE_S

NAMES = tuple(SPECS)
AGREES, FAILED, DIFFERS = 0, 1, 2
SANITIZE = "-O2 -fsanitize=address,undefined -fno-sanitize-recover=all"
pytestmark = pytest.mark.compiler


@dataclass
class Ended:
    """How a program ended, and what the fake driver was told meanwhile."""

    status: int
    out: str
    calls: list[fake_driver.Call]

    @property
    def launches(self) -> list[fake_driver.Call]:
        return [each for each in self.calls if each.name == "cuLaunchKernel"]


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """Each sample written and built, with sanitizers: the exported C too."""
    folders = {name: tmp_path_factory.mktemp("samples") / name for name in NAMES}
    for name, folder in folders.items():
        aot.sample(name, folder)
        make(folder, "all", f"CFLAGS={SANITIZE}", f"CXXFLAGS={SANITIZE}")
    return folders


def make(folder: Path, *words: str) -> str:
    command = ["make", "-s", "-C", str(folder), f"CUDA_LIB={fake_driver.path()}", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == 0, ended.stderr + ended.stdout
    return ended.stdout + ended.stderr


def run(folder: Path, program: str, log: Path, **settings: str) -> Ended:
    own = {"LD_LIBRARY_PATH": str(fake_driver.path().parent), "COURSE_FAKE_DRIVER_LOG": str(log)}
    environ, command = {**os.environ, **own, **settings}, [folder / "build" / program]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE_S)
    return Ended(ended.returncode, ended.stdout + ended.stderr, fake_driver.calls_in(log))


LANGUAGES = pytest.mark.parametrize("language", ["c", "cpp"])
EACH = pytest.mark.parametrize("name", NAMES)


@LANGUAGES
@EACH
def test_without_a_gpu_a_sample_launches_frees_all_and_says_that_nothing_agrees(
    samples, tmp_path, name, language
):
    # And no sanitizer speaks: no leak, no undefined behavior.
    ended = run(samples[name], f"{name}_{language}", tmp_path / "log")
    assert ended.status == DIFFERS, ended.out
    assert "does not agree" in ended.out
    assert ended.launches and all(each.result == 0 for each in ended.calls)
    names = [each.name for each in ended.calls]
    assert names.count("cuLibraryUnload") == names.count("cuLibraryLoadData") > 0


def test_the_vector_add_is_told_every_argument_and_takes_the_unaligned_variant_from_element_1_on(
    samples, tmp_path
):
    for language in ("c", "cpp"):
        ended = run(samples["vector_add"], f"vector_add_{language}", tmp_path / language)
        aligned, shifted = ended.launches[0], ended.launches[-1]
        assert {each.details["kernel"] for each in ended.launches} == {"add_kernel"}
        assert aligned.grid == shifted.grid == (977, 1, 1)
        assert aligned.details["block"] == [128, 1, 1]
        addresses = [struct.unpack("<Q", each)[0] for each in aligned.arguments[:3]]
        assert all(each % 16 == 0 for each in addresses) and len(set(addresses)) == 3
        assert [struct.unpack("<Q", each)[0] % 16 for each in shifted.arguments[:3]] == [4, 4, 4]
        counts = [struct.unpack("<i", each.arguments[3])[0] for each in (aligned, shifted)]
        assert counts == [1_000_000, 999_999]
        # Each variant is loaded at its first launch: the second one for addresses off 16 bytes.
        loads = [i for i, each in enumerate(ended.calls) if each.name == "cuLibraryLoadData"]
        counts = [each.details.get("arguments", [""])[3:4] for each in ended.calls]
        assert loads == [0, counts.index(["3f420f00"]) - 2]


def test_the_softmax_is_told_every_argument(samples, tmp_path):
    for language in ("c", "cpp"):
        launch = run(samples["softmax"], f"softmax_{language}", tmp_path / language).launches[0]
        assert launch.details["kernel"] == "softmax_kernel_v4" and launch.grid == (1823, 1, 1)
        assert [struct.unpack("<i", each)[0] for each in launch.arguments[2:5]] == [1823, 781, 800]


# The next test reads the header of attention, which takes less time than another export.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "attention"])
def test_the_export_of_a_sample_has_nothing_to_warn_of(tmp_path, name):
    spec = SPECS[name](target_of("sm_90"))
    made = aot.export(spec.kernel, spec.variants, spec.grid, name, tmp_path / name, target="sm_90")
    assert made.warnings == ()


def test_attention_loads_16_bytes_at_a_time_and_keeps_nothing_on_the_stack(samples):
    functions = read_header(samples["attention"] / "attention.h").functions
    wide = next(function for function in functions if promises_of(function.runtime))
    assert wide.load_bytes == (16,) and wide.stack_bytes == 0 and wide.options.num_warps == 8


def test_attention_is_told_every_argument(samples, tmp_path):
    for language in ("c", "cpp"):
        ended = run(samples["attention"], f"attention_{language}", tmp_path / language)
        launch = ended.launches[0]
        assert launch.details["kernel"] == "_fwd_kernel" and launch.grid == (2, 6, 1)
        shared = launch.details["shared"]
        header = (samples["attention"] / "attention.h").read_text()
        content = json.loads(header.splitlines()[1].split(" ", 3)[3])["functions"][0]
        assert shared == content["shared_bytes"]
        assert launch.details["block"] == [content["threads"], 1, 1]
        *pointers, tmp, scale, batch, heads = launch.arguments[:9]
        addresses = [struct.unpack("<Q", each)[0] for each in pointers]
        assert all(address and address % 16 == 0 for address in addresses)
        assert struct.unpack("<Q", tmp)[0] == 0 and struct.unpack("<f", scale)[0] == 0.125
        assert [struct.unpack("<i", each)[0] for each in (batch, heads)] == [2, 3]
        strides = [struct.unpack("<i", each)[0] for each in launch.arguments[9:21]]
        q, k = [200 * 192, 64, 192], [333 * 192, 64, 192]
        assert strides == [*q, *k, *k, *q]
        lengths = [struct.unpack("<i", each)[0] for each in launch.arguments[21:25]]
        assert lengths == [200, 333, 256, 64]
        assert launch.arguments[25:28] == (b"\0", b"\0", b"\1")  # EVEN_M, EVEN_N, EVEN_HEADDIM


@LANGUAGES
@EACH
@pytest.mark.parametrize(
    "call", ["cuInit", "cuMemAlloc", "cuLibraryLoadData", "cuLaunchKernel", "cuStreamSynchronize"]
)
def test_an_error_of_the_driver_ends_a_sample_with_one_sentence(
    samples, tmp_path, name, language, call
):
    # What a program had allocated goes with the process: leaks are looked for where runs succeed.
    settings = {"COURSE_FAKE_DRIVER_FAIL": f"{call}=719", "ASAN_OPTIONS": "detect_leaks=0"}
    ended = run(samples[name], f"{name}_{language}", tmp_path / "log", **settings)
    assert ended.status == FAILED
    said = ended.out.strip().splitlines()[-1]
    assert said.endswith("returned CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure.")
    assert call in said or call in ("cuLibraryLoadData", "cuLaunchKernel")


# What the exported functions would compute, on the host, whose memory is the fake driver's too.
# Each is wrong where WRONG says.
COMPUTED = {
    "vector_add": r"""
CUresult vector_add_default(CUstream s, CUdeviceptr px, CUdeviceptr py, CUdeviceptr po, int32_t n) {
    const float *x = (float *)px, *y = (float *)py;
    float *out = (float *)po;
    (void)s;
    for (int i = 0; i < n - (WRONG == 1); i++)
        out[i] = WRONG == 2 && i == 77777 ? (x[i] + y[i]) * 1.0000002f : x[i] + y[i];
    return CUDA_SUCCESS;
}
""",
    "softmax": r"""
CUresult softmax_default(CUstream s, CUdeviceptr px, CUdeviceptr po, int32_t rows, int32_t n,
    int32_t stride) {
    (void)s;
    for (int r = 0; r < rows - (WRONG == 1); r++) {
        const float *x = (float *)px + (size_t)r * stride;
        float *out = (float *)po + (size_t)r * n, sum = 0.f, most = x[0];
        for (int i = 0; i < n; i++) most = x[i] > most ? x[i] : most;
        for (int i = 0; i < n; i++) sum += out[i] = expf(x[i] - most);
        for (int i = 0; i < n; i++) out[i] /= WRONG == 2 && r == 7 ? sum * 1.0001f : sum;
    }
    return CUDA_SUCCESS;
}
""",
    "attention": r"""
static float h(uint16_t b) {
    uint32_t e = b >> 10 & 31, m = b & 1023;
    float f = e ? ldexpf((float)(1024 + m), (int)e - 25) : ldexpf((float)m, -24);
    return b & 0x8000 ? -f : f;
}
CUresult attention_default(CUstream s, CUdeviceptr Q, CUdeviceptr K, CUdeviceptr V, CUdeviceptr O,
    CUdeviceptr L, CUdeviceptr T, float scale, int32_t B, int32_t H, int32_t qb, int32_t qh,
    int32_t qm, int32_t kb, int32_t kh, int32_t kn, int32_t vb, int32_t vh, int32_t vn,
    int32_t ob, int32_t oh, int32_t om, int32_t M, int32_t N, int32_t R, int32_t D,
    int8_t em, int8_t en, int8_t ed) {
    static float p[4096];
    static int done; /* the timed launches compute the same */
    (void)s, (void)T, (void)em, (void)en, (void)ed;
    if (done++) return CUDA_SUCCESS;
    for (int b = 0; b < B; b++) for (int a = 0; a < H; a++)
    for (int m = 0; m < M - (WRONG == 1); m++) {
        int seen = m + N - M + (WRONG == 2 ? 0 : 1);
        const uint16_t *q = (uint16_t *)Q + b * qb + a * qh + m * qm;
        float most = -INFINITY, sum = 0.f;
        for (int n = 0; n < seen; n++) {
            const uint16_t *k = (uint16_t *)K + b * kb + a * kh + n * kn;
            float dot = 0.f;
            for (int d = 0; d < D; d++) dot += h(q[d]) * h(k[d]);
            p[n] = dot * scale;
            most = p[n] > most ? p[n] : most;
        }
        for (int n = 0; n < seen; n++) {
            p[n] = expf(p[n] - most);
            sum += p[n];
            p[n] = h(fp16_bits(p[n]));
        }
        for (int d = 0; d < D; d++) {
            float acc = 0.f;
            for (int n = 0; n < seen; n++)
                acc += p[n] * h(((uint16_t *)V)[b * vb + a * vh + n * vn + d]);
            ((uint16_t *)O)[b * ob + a * oh + m * om + d] = fp16_bits(acc / sum);
        }
        ((float *)L)[(b * H + a) * R + m] = most + logf(sum) + (WRONG == 3 ? 1e-3f : 0.f);
    }
    return CUDA_SUCCESS;
}
""",
}


@LANGUAGES
@pytest.mark.parametrize(
    ("name", "wrong"),
    [(name, wrong) for name in NAMES for wrong in range(4 if name == "attention" else 3)],
)
def test_a_sample_accepts_what_is_computed_right_and_only_that(
    samples, tmp_path, name, wrong, language
):
    """The loops and the tolerances, tried with functions that compute on the host."""
    folder = samples[name]
    (tmp_path / "computed.c").write_text(
        f'#include <math.h>\n#include <string.h>\n#include "{name}.h"\n'
        f"{BITS['fp16']}{COMPUTED[name]}"
        f"CUresult unload_{name}(void) {{ return CUDA_SUCCESS; }}\n"
    )
    computed, program = tmp_path / "computed.o", folder / "build" / f"computed_{language}_{wrong}"
    includes = ["-I", str(folder), "-isystem", str(include_folder())]
    compiler = ["cc", "-O2", "-w", f"-DWRONG={wrong}", *includes, "-c"]
    subprocess.run([*compiler, "-o", computed, tmp_path / "computed.c"], check=True)
    linker = ["cc" if language == "c" else "g++", *SANITIZE.split()]
    main = folder / "build" / f"main.{language}.o"
    subprocess.run(
        [*linker, "-o", program, main, computed, str(fake_driver.path()), "-lm"], check=True
    )
    ended = run(folder, program.name, tmp_path / "log")
    assert ended.status == (DIFFERS if wrong else AGREES), ended.out
    assert ("does not agree" in ended.out) == bool(wrong)


def test_make_run_runs_both_programs_though_the_first_one_fails(samples):
    command = ["make", "-s", "-C", samples["softmax"], "run", f"CUDA_LIB={fake_driver.path()}"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode != 0
    assert "Softmax in C on Fake GPU 0" in ended.stdout
    assert "Softmax in C++ on Fake GPU 0" in ended.stdout


def test_make_without_a_driver_says_what_to_give(samples):
    command = ["make", "-C", samples["softmax"], "-B", "CUDA_LIB="]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode != 0
    said = "There is no libcuda.so.1 here: name one, as in make run CUDA_LIB=/path/to/libcuda.so.1."
    assert said in ended.stderr


@pytest.mark.parametrize("compiler", ["c", "cpp"])
def test_the_sources_compile_for_another_target_without_a_warning(tmp_path, compiler):
    aot.sample("vector_add", tmp_path / "vector_add", target="sm_80")
    flags = ("CFLAGS=-O1 -pedantic", "CXXFLAGS=-O1 -pedantic")
    assert make(tmp_path / "vector_add", f"build/vector_add_{compiler}", *flags) == ""


def test_a_program_that_was_changed_is_not_written_over(tmp_path):
    folder = tmp_path / "mine"
    made = aot.sample("vector_add", folder)
    assert f"make -C {folder} run" in str(made)
    aot.sample("vector_add", folder)  # unchanged: written again
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    with pytest.raises(CourseError, match=r"main\.c exists and is not what this sample has"):
        aot.sample("vector_add", folder)
    assert (folder / "main.c").read_text() == "int main(void) { return 0; }\n"
    aot.sample("vector_add", folder, force=True)
    assert "vector_add_default" in (folder / "main.c").read_text()


def test_settings_that_somebody_else_wrote_are_not_written_over(tmp_path):
    (tmp_path / "settings.mk").write_text("NAME := mine\n")
    with pytest.raises(CourseError, match="settings"):
        aot.sample("softmax", tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["settings.mk"]


def test_a_sample_that_there_is_not_is_named(tmp_path):
    said = r"There is no sample 'matmul': the samples are vector_add, softmax, attention\."
    with pytest.raises(CourseError, match=said):
        aot.sample("matmul", tmp_path / "matmul")


def test_the_command_line_writes_a_sample_and_names_the_fake_driver(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["aot", "sample", "softmax", "work/softmax", "--target", "sm_80"]
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 0 and "make -C work/softmax run" in ended.stdout
    assert (tmp_path / "work/softmax/softmax.h").exists()
    settings = (tmp_path / "work/softmax/settings.mk").read_text()
    assert "export COURSE_FAKE_DRIVER_CAPABILITIES ?= 80\n" in settings
    ended = CliRunner().invoke(app, ["aot", "fake-driver"])
    assert Path(ended.stdout.strip()) == fake_driver.path()
