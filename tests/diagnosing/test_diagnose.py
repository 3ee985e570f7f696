"""diagnose: the whole of it on one kernel, what it refuses, and what it says without a trace."""

import re

import pytest
import torch
from typer.testing import CliRunner

import course
from course import CourseError, cost, lower
from course.cli import app
from course.diagnosing import api
from course.diagnosing.result import Diagnosis
from course.lowering.api import LowerError
from tests.diagnosing import kernels_compiled, kernels_dots, kernels_sectors
from tests.diagnosing.measured import experiments, measured_as

COLUMN = torch.empty(2**22), torch.empty(2**18), 16, 1024


def diagnose(*args, target="H200", **options):
    """course.diagnose for one GPU, whichever this machine has."""
    return course.diagnose(*args, target=target, **options)


@pytest.fixture(scope="module")
def column():
    return diagnose(kernels_sectors.copy_column_kernel, (256,), *COLUMN)


def test_a_finding_has_its_number_its_line_the_reason_the_change_and_the_gain(column):
    first, *_ = str(column).split("\n  2.")
    assert "262,144 sectors asked for, 32,768 needed, 8.0 times as many" in first
    assert ": tl.store(out_ptr + rows, tl.load(x_ptr + rows * stride))" in first
    assert "why: " in first
    assert "try: " in first
    assert "gain: about " in first


def test_as_html_it_says_the_same_and_code_is_code(column):
    shown = column._repr_mimebundle_()
    assert shown["text/plain"] == str(column)
    assert (
        "<code>tl.store(out_ptr + rows, tl.load(x_ptr + rows * stride))</code>"
        in (shown["text/html"])
    )


def test_what_cost_refuses_is_refused_with_the_same_sentence():
    kernel = kernels_sectors.copy_row_kernel
    for launch in (
        (max, (1,)),
        (kernel, (0,), *COLUMN),
        (kernel, "4", *COLUMN),
        (kernel, (1,), *COLUMN[:2]),
        (kernel, (1,), "*fp32", *COLUMN[1:]),
    ):
        with pytest.raises(CourseError) as of_cost:
            cost(*launch)
        with pytest.raises(CourseError) as own:
            course.diagnose(*launch)
        assert str(own.value) == str(of_cost.value).replace("cost", "diagnose")


def test_the_command_says_what_the_call_says(column):
    kernel = f"{kernels_sectors.__file__}:copy_column_kernel"
    signature = "*fp32[4194304], *fp32[262144], 16, BLOCK=1024"
    arguments = ["diagnose", kernel, "-g", "256", "-s", signature, "--target", "H200"]
    result = CliRunner().invoke(app, arguments)
    assert result.stdout.strip() == str(column)


@pytest.mark.parametrize(
    "grid, signature, words",
    [("4x", "*fp32[4]", "The grid must be one to three"), ("4", "*fp32:16", "not a tensor that")],
)
def test_the_command_refuses_what_says_no_launch(grid, signature, words):
    kernel = f"{kernels_sectors.__file__}:copy_column_kernel"
    result = CliRunner().invoke(app, ["diagnose", kernel, "-g", grid, "-s", signature])
    assert words in str(result.exception)


def test_a_time_that_the_estimate_does_not_explain_is_said_not_to_be_known(monkeypatch):
    args = kernels_sectors.copy_row_kernel, (256,), *COLUMN
    estimated = diagnose(*args).estimated_us
    for times, known in ((1.2, True), (2, False)):
        measured_as(monkeypatch, experiments(estimated * times))
        text = str(diagnose(*args))
        assert "measured " in text
        assert ("what takes the rest is not known here" in text) != known


def test_where_no_rule_finds_a_cause_none_is_numbered():
    said = Diagnosis("copy_kernel", "H200", programs=1, findings=())
    assert said.to_html().endswith("for H200</p><p>No rule found a cause.</p></div>")


def test_a_time_below_the_estimate_makes_its_gains_an_order_and_no_more(monkeypatch):
    args = kernels_sectors.copy_row_kernel, (256,), *COLUMN
    estimated = diagnose(*args).estimated_us
    for times, doubted in ((0.8, False), (0.5, True)):
        measured_as(monkeypatch, experiments(estimated * times))
        said = diagnose(*args)
        assert ("The estimate is 2.0 times the measured time" in str(said)) == doubted
        assert ("The estimate is 2.0 times the measured time" in said.to_html()) == doubted


def test_a_launch_that_is_not_followed_is_timed_all_the_same(monkeypatch):
    measured_as(monkeypatch, experiments(12.5))
    args = kernels_sectors.copy_row_kernel, (256,), *COLUMN
    said = diagnose(*args, num_ctas=2)
    assert "measured 12.5 us" in str(said)
    assert "estimated" not in str(said).replace("not estimated", "")
    assert said.explained is None


ALONE = "The launch could not be followed, so that only its compiled code was judged: "


def test_a_kernel_that_the_interpreter_lacks_something_for_is_judged_by_its_code():
    args = kernels_compiled.OPERANDS
    assembly = diagnose(kernels_compiled.product_by_assembly_kernel, (64,), *args)
    assert ALONE in str(assembly)
    assert "estimated" not in str(assembly).replace("not estimated", "")
    assert assembly.estimated_us is None
    assert {"few programs", "tensor cores"} <= {*assembly.causes}


def test_programs_that_a_cluster_joins_are_judged_by_their_code():
    args = kernels_sectors.copy_row_kernel, (256,), *COLUMN
    joined = diagnose(*args, num_ctas=2)
    assert f"{ALONE}num_ctas=2 joins programs." in str(joined)
    assert joined.causes == []


def test_a_launch_too_long_to_end_a_program_is_judged_by_its_code(monkeypatch):
    monkeypatch.setattr(api, "FOLLOWED_S", 0.3)
    text = str(diagnose(kernels_compiled.endless_kernel, (256,), torch.zeros(256), 2**30))
    assert ALONE in text


def test_a_sample_is_said_to_be_one(monkeypatch):
    monkeypatch.setattr(api, "FOLLOWED_S", 0.5)
    text = str(diagnose(kernels_compiled.endless_kernel, (256,), torch.zeros(256), 500))
    assert re.search(r"\d+ programs? w(as|ere) followed, as many as 0.5 s of computing allow", text)


def test_a_kernel_that_fails_is_refused_as_cost_refuses_it():
    with pytest.raises(CourseError, match="fails in program 0, line"):
        diagnose(kernels_compiled.outside_kernel, (1,), torch.zeros(16), 2**20)


def test_a_kernel_that_does_not_compile_is_refused_as_lower_refuses_it():
    with pytest.raises(LowerError) as of_lower:
        lower(kernels_compiled.undefined_kernel, torch.zeros(16), target="sm_90")
    with pytest.raises(LowerError) as own:
        diagnose(kernels_compiled.undefined_kernel, (1,), torch.zeros(16))
    assert str(own.value) == str(of_lower.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"num_stages": 20}, "bytes of shared memory, and may have 232,448: take smaller blocks"),
        ({"num_warps": 64}, "a program has 64 warps, and may have 32: give num_warps=32 or fewer"),
    ],
    ids=["shared memory", "warps"],
)
def test_a_kernel_that_the_gpu_cannot_launch_is_refused(options, says):
    """What takes time in it says nothing, as it never runs."""
    launch = kernels_dots.product(torch.float16, "tf32", **options)
    with pytest.raises(CourseError, match=f"product_kernel cannot be launched on H200: .*{says}"):
        diagnose(launch.kernel, launch.grid, *launch.args, **launch.options)
