"""What is said of RMSNorm is so, its parts fit together, and the worked report quotes it."""

import json
import re
from pathlib import Path

import pytest
import torch

from course import DEVICE, lower, recorded
from kernels import rms_norm
from tests.support.lesson import Lesson, notebook_of, script_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "pages" / "your-own-operation.md").read_text(encoding="utf-8")
REPORT = PAGE.split("## A worked report")[1]
NOTEBOOKS = ("your-own-operation", "its-gradient")
ALL_CELLS = [
    cell
    for name in NOTEBOOKS
    for cell in json.loads(notebook_of(name).read_text(encoding="utf-8"))["cells"]
]


def texts(output):
    data = output.get("data", {}).get("text/plain", output.get("text", []))
    return "".join(data)


CELLS = [cell for cell in ALL_CELLS if cell["cell_type"] == "code"]
PRINTED = "\n".join(texts(output) for cell in CELLS for output in cell["outputs"])
QUOTED = [
    line for block in re.findall(r"```\n(.*?)```", REPORT, re.DOTALL) for line in block.splitlines()
]


@pytest.mark.parametrize("line", QUOTED)
def test_what_the_report_quotes_was_printed_by_a_cell_of_the_lesson(line):
    assert line in PRINTED


def test_the_report_holds_every_row_of_the_rubric():
    rubric = next(
        "".join(cell["source"]) for cell in ALL_CELLS if "## Your report" in "".join(cell["source"])
    )
    rows = re.findall(r"^\| ([A-Z].+?) \|", rubric, re.MULTILINE)
    assert rows == re.findall(r"^\*\*([A-Z][\w ]*)\.\*\*", REPORT, re.MULTILINE)
    assert len(rows) == 8


def test_bits_agree_and_gradcheck_says_what_the_report_says():
    after = {
        "torch.equal(first, again)": "True\nTrue\n",
        "gradcheck(function": "True\nin_float32 False",
    }
    for code, printed in after.items():
        (cell,) = [cell for cell in CELLS if code in "".join(cell["source"])]
        assert printed in "".join(map(texts, cell["outputs"]))


SPEEDS = recorded("rms_norm")
WIDTHS = [timing.x for timing in SPEEDS.of("rms_norm")]


def share(name, columns):
    """The speed of a series in times that of a copy of as many bytes."""
    return SPEEDS.at("copy", columns).ms / SPEEDS.at(name, columns).ms


def test_the_finished_kernel_and_torch_compile_reach_the_copy_and_lie_within_2_percent():
    for columns in WIDTHS:
        assert share("rms_norm", columns) > 1
        assert share("rms_norm", columns) / share("torch.compile", columns) == pytest.approx(
            1, abs=0.02
        )


def test_torchs_own_is_below_three_quarters_of_the_copy_at_most_widths_and_the_lines_near_a_fifth():
    assert sum(share("torch", columns) < 0.75 for columns in WIDTHS) > len(WIDTHS) / 2
    assert all(0.195 < share("torch, in steps", columns) < 0.23 for columns in WIDTHS)


def test_the_spill_costs_a_tenth_and_is_what_the_two_versions_differ_in():
    x = torch.empty(4096, 32768, device="meta")
    spills = []
    for version, num_warps in ((rms_norm._v2, 16), (rms_norm._v5, 16), (rms_norm._v2, 32)):
        launch = version(x, num_warps=num_warps)
        compiled = lower(
            launch.kernel, x, x[0], x, torch.empty(4096, device="meta"), n_cols=32768,
            stride_xm=32768, eps=1e-6, **launch.arguments, target="sm_90",
        )  # fmt: skip
        spills.append(compiled.resources.spill_bytes)
    assert spills[:2] == [80, 0]
    assert spills[2] > 0
    # What was recorded ran with the versions' own number of warps.
    assert all(v(x).arguments["num_warps"] == 16 for v in (rms_norm._v2, rms_norm._v5))
    assert 0.08 < share("rms_norm_v5", 32768) - share("rms_norm_v2", 32768) < 0.13
    assert {round(share(name, 16384), 2) for name in ("rms_norm_v2", "rms_norm_v5")} == {0.98}


@pytest.fixture
def parts(tmp_path):
    """What the notebooks define, with the exercises solved, and the reader's kernels put in."""
    lesson = Lesson("Your own kernels")
    names = ("rms_norm_reference", "rms_norm_kernel", "forward")
    names += ("rms_norm_dx_kernel", "weight_gradient", "make_operator")
    text = "\n\n\n".join(lesson.defining(*names))
    own = text.replace("kernel = finished.rms_norm_kernel_v2", "kernel = rms_norm_kernel")
    assert own != text
    return script_of(tmp_path, lesson.imports, own, BACKWARD)


BACKWARD = '''\
def backward(
    d_out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """As the notebook describes it for the reader's own parts."""
    dx, block_n = torch.empty_like(x), triton.next_power_of_2(x.shape[1])
    rms_norm_dx_kernel[(len(x),)](d_out, x, weight, rstd, dx, x.shape[1], BLOCK_N=block_n)
    return dx, weight_gradient(d_out, x, rstd)
'''


@pytest.mark.gpu_too
def test_the_parts_that_the_exercises_ask_for_make_an_operator(parts):
    operator = parts.make_operator("course_tests::rms_norm", parts.forward, parts.backward)
    x, weight, d_out = (
        torch.randn(shape, device=DEVICE) for shape in ((40, 100), (100,), (40, 100))
    )
    x, weight = x.requires_grad_(), weight.requires_grad_()
    ours = torch.autograd.grad(operator(x, weight, 1e-6)[0], (x, weight), d_out)
    theirs = torch.autograd.grad(parts.rms_norm_reference(x, weight), (x, weight), d_out)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    tests = ("test_schema", "test_autograd_registration")
    results = torch.library.opcheck(operator, (x, weight, 1e-6), test_utils=tests)
    assert set(results.values()) == {"SUCCESS"}
