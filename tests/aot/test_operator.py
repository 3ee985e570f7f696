"""torch.ops.course.fmha: registered, traced, checked, and its launches as the fake driver is
told them."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from course import MODE, compilers
from course.aot import fake_driver, operators
from course.aot.operators import Kernels
from course.errors import CourseError
from course.gpus.limits import target_of
from kernels.attention.settings import settings_for
from tests.support.processes import PATIENCE_S, python_path

SESSION = Path(__file__).parents[1] / "support" / "operator_session.py"
HEAD_DIMS, DTYPES = (32, 64), ("fp16",)  # as in the session
pytestmark = pytest.mark.compiler


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """What came of it all, in one process. The library is built in a cache of its own, from
    nothing."""
    if MODE.gpu:
        pytest.skip("needs CPU mode: elsewhere a process may hold the driver")
    environ = {
        **os.environ,
        "COURSE_MODE": "cpu",
        "COURSE_CACHE": str(tmp_path_factory.mktemp("cache")),
    }
    environ["PYTHONPATH"] = python_path()
    command = [sys.executable, SESSION]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    found["library"] = next(Path(environ["COURSE_CACHE"]).glob("operator/*/fmha.so"))
    return found


def launch_of(found):
    (launch,) = found["launches"]
    return launch, [bytes.fromhex(each) for each in launch["arguments"]]


def numbers(form, arguments):
    return [struct.unpack(form, each)[0] for each in arguments]


def test_it_is_registered_with_a_schema_and_loaded_once(session):
    parameters = "Tensor q, Tensor k, Tensor v, float scale, bool causal"
    assert session["schema"] == f"course::fmha({parameters}) -> (Tensor, Tensor)"
    assert session["same again"] is True
    said = "This process has loaded the operator with other kernels: start a new process."
    assert session["other kernels"] == said


def test_without_a_gpu_a_call_says_in_one_sentence_where_tensors_must_be(session):
    said = "fmha: q is on the CPU, and must be on a CUDA device: call .cuda()."
    assert session["no driver"] == said


def test_export_and_compile_take_it_and_know_its_shapes(session):
    assert session["exported"][0] == "course.fmha.default"
    out, lse = session["fake"]
    assert out == [[2, 3, 200, 64], "torch.bfloat16", "cpu"]
    assert lse == [[2, 3, 200], "torch.float32", "cpu"]
    assert session["compiled"] == [2, 3, 200, 64]
    assert "fmha: q has 3 dimensions, and must have 4." in session["fake dimensions"]


def test_a_call_launches_with_every_argument_as_the_kernel_reads_it(session):
    found = session["first"]
    launch, arguments = launch_of(found)
    settings = settings_for(64, target_of("sm_90").shared_bytes // 1024)
    assert launch["kernel"] == "_fwd_kernel" and launch["result"] == 0
    assert launch["grid"] == [-(-200 // settings.block_m), 3, 2]
    assert launch["block"] == [32 * settings.num_warps, 1, 1]
    assert numbers("<Q", arguments[:6]) == [*session["inputs"], *found["addresses"], 0]
    assert numbers("<f", arguments[6:7]) == [0.125]
    assert numbers("<i", arguments[7:9]) == [2, 3]
    q, k = [3 * 200 * 64, 200 * 64, 64], [3 * 333 * 64, 333 * 64, 64]
    assert numbers("<q", arguments[9:21]) == [*q, *k, *k, *q]
    assert numbers("<i", arguments[21:25]) == [200, 333, 200, 64]
    assert found["shapes"] == [[2, 3, 200, 64], [2, 3, 200]]
    assert found["dtypes"] == ["torch.float16", "torch.float32"]


def test_strides_are_the_tensors_own_and_the_result_is_contiguous(session):
    _, arguments = launch_of(session["rows"])
    q, k, out = [3 * 200 * 64, 64, 192], [3 * 333 * 64, 64, 192], [3 * 200 * 64, 200 * 64, 64]
    assert numbers("<q", arguments[9:21]) == [*q, *k, *k, *out]
    assert numbers("<f", arguments[6:7]) == [0.5]
    # From batch to batch, and there is one: no promise is broken.
    assert launch_of(session["one batch"])[1][9] == bytes(8)


def test_each_head_dimension_has_its_kernel(session):
    first, _ = launch_of(session["first"])
    other, arguments = launch_of(session["32"])
    assert other["shared"] < first["shared"] and numbers("<i", arguments[21:25]) == [5, 5, 5, 32]


def test_the_algorithms_are_in_the_order_that_the_cpp_counts_on(tmp_path):
    linked = operators._export(tmp_path, (16,), "bf16", target_of("sm_90"))
    assert [each.functions[0].constants["IS_CAUSAL"] for each in linked.algorithms] == [False, True]
    header = operators._variants((64, 128), ("fp16", "bf16"))
    assert re.findall(r"\{ScalarType::(\w+), (\d+), (\d+), (\w+)\}", header) == [
        (dtype, head_dim, plain, f"course_fmha_{name}")
        for dtype, name in (("Half", "fp16"), ("BFloat16", "bf16"))
        for head_dim, plain in (("64", "0"), ("128", "2"))
    ]
    source = (operators.FOLDER / "fmha.cpp").read_text()
    assert "variant.plain + (causal ? 1 : 0)" in source


def test_kernels_are_loaded_by_the_first_call_and_again_where_that_failed(session):
    said = "fmha: load_course_fmha_fp16 returned CUDA_ERROR_NO_BINARY_FOR_GPU."
    assert session["not loaded"] == said
    assert session["first"]["loads"] == 2 * len(HEAD_DIMS) * len(DTYPES)
    assert session["rows"]["loads"] == 0


def test_a_thread_without_a_context_may_call_it(session):
    assert session["thread"] == 0


def test_nothing_to_compute_launches_nothing_and_no_keys_are_no_error(session):
    assert session["no queries"]["launches"] == []
    _, arguments = launch_of(session["no keys"])
    assert numbers("<i", arguments[21:25]) == [200, 0, 200, 64]


def test_an_error_of_the_driver_is_one_sentence(session):
    assert session["launch fails"] == "fmha: the launch returned CUDA_ERROR_LAUNCH_FAILED."


REFUSED = {
    "q dimensions": "q has 3 dimensions, and must have 4: batch, heads, length, head_dim.",
    "k dtype": "q and k have different dtypes.",
    "q dtype": "q has a dtype that this build has no kernel for; it was built for float16.",
    "last stride": "q has a last stride of 2, and must have 1: call .contiguous().",
    "stride": "q has a stride of 72, and must have multiples of 16: call .contiguous().",
    "address": "q begins at an address that is no multiple of 16: call .clone().",
    "head_dim": "q has a head_dim of 48, and this build has kernels for 32 and 64.",
    "heads": "q has a size of 3 along dimension 1 and k of 1; both must have the same.",
    "lengths": "k has a size of 333 along dimension 2 and v of 300; both must have the same.",
    "scale 0": "scale is 0, and must be positive and finite.",
    "scale that float32 has as 0": "scale is 1e-50, and must be positive and finite.",
    "scale NaN": "scale is nan, and must be positive and finite.",
    "batches": "q has 70000 batches of 1 heads, and at most 65535 of each are possible.",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_does_not_take_is_refused_in_one_sentence(session, name):
    assert session["refused"][name] == f"fmha: {REFUSED[name]}"


def test_what_is_refused_was_never_launched(session):
    assert session["refused"].keys() == REFUSED.keys()
    assert session["launches of refused calls"] == 0


def test_the_library_needs_only_functions_of_c_from_pytorch_and_none_of_the_driver(session):
    """So that it loads with other versions of PyTorch, and where there is no driver."""
    if shutil.which("nm") is None:
        pytest.skip("needs nm")
    command = ["nm", "-D", "--undefined-only", session["library"]]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    names = [line.split()[-1] for line in listed.stdout.splitlines()]
    assert any(name.startswith("aoti_torch_") for name in names)
    mangled = [name for name in names if re.match(r"_ZN?K?\d*(2at|3c10|5torch)", name)]
    assert mangled == [] and [name for name in names if re.match(r"cu[A-Z]", name)] == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"dtypes": ["fp32"]}, "There is no attention for 'fp32': there is fp16, bf16."),
        ({"head_dims": [96]}, "head_dim is 96, and must be 16, 32, 64, 128 or 256."),
        ({"head_dims": 64}, "head_dims is 64, and must be a list or a tuple."),
        ({"dtypes": "fp16"}, "dtypes is 'fp16', and must be a list or a tuple."),
        ({"head_dims": []}, "There is nothing to build: give at least one head dimension and one"),
        ({"target": "gfx942"}, "gfx942 is an AMD target"),
    ],
)
def test_what_there_are_no_kernels_for_is_named_before_anything_is_built(asked, said):
    with pytest.raises(CourseError, match=re.escape(said)):
        operators.build_operator(**asked)


def test_a_compiler_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(CourseError, match=r"\$CXX names no-such-compiler, which is not found"):
        operators.build_operator(target="sm_90")
    monkeypatch.delenv("CXX")
    without = compilers.PROGRAMS["C++"]
    monkeypatch.setattr(shutil, "which", lambda name: None if name in without else name)
    with pytest.raises(CourseError, match=r"There is no C\+\+ compiler"):
        operators.build_operator(target="sm_90")


def test_the_cache_goes_by_all_that_goes_into_the_library(monkeypatch):
    def name(head_dim=64, target="sm_90", cxx="g++"):
        return operators._hash(Kernels((head_dim,), ("fp16",), target_of(target)), ["cc"], [cxx])

    first = name()
    assert first == name()
    assert len({first, name(head_dim=128), name(target="sm_80"), name(cxx="clang++")}) == 4
    monkeypatch.setattr(operators.torch, "__version__", "9.9")
    assert name() != first


def test_a_library_in_the_cache_that_was_cut_off_is_built_again(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(operators, "_build", lambda path, *_: path.write_bytes(b"a library"))
    whole = operators.build_operator(target="sm_90").read_bytes()
    operators.build_operator(target="sm_90").write_bytes(whole[:4])
    assert operators.build_operator(target="sm_90").read_bytes() == whole


def test_the_fake_driver_and_the_operator_agree_on_what_a_fake_driver_is():
    assert '"told_to_fail"' in (operators.FOLDER / "driver.c").read_text()
    assert "told_to_fail" in (fake_driver.FOLDER / "fake_driver.h").read_text()
