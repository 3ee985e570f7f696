"""torch.ops.course.fmha: registered, traced, checked, and its launches as the fake driver is
told them."""

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from course import MODE
from course.aot import operators
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
    return json.loads(ended.stdout)


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
    assert "fmha: q has 3 dimensions, and must have 4: batch," in session["fake dimensions"]


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


def test_the_algorithms_are_in_the_order_that_a_call_counts_on(tmp_path, monkeypatch):
    linked = []

    def build(made, library):
        linked.append(made)
        library.write_bytes(b"a library")

    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(operators, "build", build)
    operators._library(Kernels((16, 32), ("bf16",), target_of("sm_90")), "bf16")
    constants = [each.functions[0].constants for each in linked[0].algorithms]
    sizes_and_masks = [(each["BLOCK_HEADDIM"], each["IS_CAUSAL"]) for each in constants]
    assert sizes_and_masks == [(16, False), (16, True), (32, False), (32, True)]


def test_kernels_are_loaded_by_the_first_call_and_again_where_that_failed(session):
    said = "course_fmha_fp16 returned CUDA_ERROR_NO_BINARY_FOR_GPU."
    assert session["not loaded"] == said
    assert session["first"]["loads"] == 1
    assert session["rows"]["loads"] == 1  # the one under a causal mask
    assert session["no keys"]["loads"] == 0


def test_a_thread_without_a_context_may_call_it(session):
    assert session["thread"] == 0


def test_nothing_to_compute_launches_nothing_and_no_keys_are_no_error(session):
    assert session["no queries"]["launches"] == []
    _, arguments = launch_of(session["no keys"])
    assert numbers("<i", arguments[21:25]) == [200, 0, 200, 64]


def test_an_error_of_the_driver_is_one_sentence(session):
    assert session["launch fails"] == "course_fmha_fp16 returned CUDA_ERROR_LAUNCH_FAILED."


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


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"dtypes": ["fp32"]}, "There is no attention for 'fp32': there is fp16, bf16."),
        ({"head_dims": [96]}, "head_dim is 96, and must be 16, 32, 64, 128 or 256."),
        ({"head_dims": []}, "There is nothing to build: give at least one head dimension and one"),
        ({"target": "gfx942"}, "gfx942 is an AMD target"),
    ],
)
def test_what_there_are_no_kernels_for_is_named_before_anything_is_built(asked, said):
    with pytest.raises(CourseError, match=re.escape(said)):
        operators.operator(**asked)


def test_a_compiler_that_is_not_there_is_named_before_anything_is_exported(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr(operators, "export", None)
    with pytest.raises(CourseError, match=r"\$CC names no-such-compiler, which is not found"):
        operators.operator(target="sm_90")


def test_the_cache_goes_by_all_that_goes_into_the_library(monkeypatch):
    def name(head_dim=64, target="sm_90", compiler="gcc"):
        kernels = Kernels((head_dim,), ("fp16",), target_of(target))
        return operators._hash(kernels, [compiler])

    first = name()
    assert first == name()
    assert len({first, name(head_dim=128), name(target="sm_80"), name(compiler="clang")}) == 4
    read = Path.read_bytes
    attention = Path("attention", "export.py").parts
    edited = lambda path: read(path) + b"#" * (path.parts[-2:] == attention)  # noqa: E731
    monkeypatch.setattr(Path, "read_bytes", edited)
    assert name() != first


def test_a_library_in_the_cache_that_was_cut_off_is_built_again(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(operators, "export", lambda *_, **__: None)
    monkeypatch.setattr(operators, "link", lambda *_: None)
    monkeypatch.setattr(operators, "build", lambda _, path: path.write_bytes(b"a library"))
    kernels = Kernels((64,), ("fp16",), target_of("sm_90"))
    whole = operators._library(kernels, "fp16").read_bytes()
    operators._library(kernels, "fp16").write_bytes(whole[:4])
    assert operators._library(kernels, "fp16").read_bytes() == whole
