"""diagnose on a GPU: parts of a kernel are taken out and timed, and tensors are left alone."""

import pytest
import torch
import triton
import triton.language as tl

from course import CourseError, diagnose, lower
from course.diagnosing.experiments.run import Candidate, code_as_is, timed_there, timed_together
from course.gpus.peaks import gpu_of
from course.tracing.launch import packed, requested
from tests.diagnosing import kernels_instructions
from tests.diagnosing.kernels_gluon import copy_kernel
from tests.support import trace_kernels as kernels

pytestmark = [pytest.mark.gpu, pytest.mark.alone]


@pytest.fixture(autouse=True)
def known_gpu():
    """Skips where no peak figures are known of this GPU."""
    try:
        gpu_of(torch.cuda.get_device_name())
    except CourseError as error:
        pytest.skip(f"needs a known GPU: {error}")


@triton.jit
def transpose_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    """A piece of a row per program, whose elements go a column apart."""
    row = tl.program_id(0)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i * rows + row, tl.load(x_ptr + row * columns + i))


@triton.jit
def double_in_place_kernel(x_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i))


@triton.jit
def far_away_kernel(x_ptr, far, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i + far))


@triton.jit
def double_some_day_kernel(x_ptr, BLOCK: tl.constexpr, ENDLESS: tl.constexpr):
    if ENDLESS:
        while tl.load(x_ptr, volatile=True) < 1e30:
            pass
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i))


def test_an_addition_at_the_roof_is_measured_and_has_no_cause():
    n = 2**25
    x, y, out = (torch.zeros(n, device="cuda") for _ in range(3))
    said = diagnose(kernels.add_kernel, (n // 1024,), x, y + 1, out, n, BLOCK_SIZE=1024)
    assert not (out != 0).any()  # timed on copies
    assert 0.7 < said.explained < 1.4
    assert not [each for each in said.findings if each.gain > 1.3]


def test_what_saves_most_comes_first_with_what_the_launch_takes_without_it():
    x, out = torch.randn(4096, 4096, device="cuda"), torch.zeros(4096, 4096, device="cuda")
    said = diagnose(transpose_kernel, (4096, 4), x, out, 4096, 4096, BLOCK=1024)
    assert not (out != 0).any()
    first = said.findings[0]
    assert (first.cause, first.without.kind) == ("sectors", "stores")
    assert first.without.us < said.measured_us / 2
    assert "without it the launch takes" in str(said)
    assert said.experiments.seconds < 30


def test_divisions_of_64_bits_are_tried_with_32_and_give_the_same():
    slow = kernels_instructions.PAIRS[2].slow
    x, out = torch.randn(2**25, device="cuda"), torch.empty(2**25, device="cuda")
    said = diagnose(slow.kernel, slow.grid, x, out, *slow.args[2:])
    (tried,) = (each for each in said.experiments.done if each.kind == "divisions")
    assert tried.us < said.measured_us
    assert "divide integers of 64 bits" in said.findings[0].what
    assert not any("results differ" in reason for reason in said.experiments.dropped)


def test_a_kernel_that_writes_its_input_has_it_anew_before_each_launch():
    x = torch.full((2**22,), 1e30, device="cuda")  # eight times doubled, it is infinite
    said = diagnose(double_in_place_kernel, (2**12,), x, BLOCK=1024)
    assert (x == 1e30).all()
    assert {"num_warps"} <= {each.kind for each in said.experiments.done}
    assert not any("results differ" in reason for reason in said.experiments.dropped)


def test_a_launch_that_faults_does_so_in_its_child():
    x = torch.zeros(2**20, device="cuda")
    with pytest.raises(CourseError):  # what is read outside is found before
        diagnose(far_away_kernel, (1024,), x, 2**40, BLOCK=1024)
    with packed(
        requested("diagnose", far_away_kernel, (1024,), (x, 2**40), {"BLOCK": 1024})
    ) as own:
        candidate = Candidate(
            code_as_is(lowered := lower(far_away_kernel, x, 2**40, 1024), lowered.cubin)
        )
        with pytest.raises(CourseError, match="the launch itself ended with the error"):
            timed_together([candidate], [], own, timed_there)
    assert (x + 1 == 1).all()  # the GPU goes on here


def test_a_variant_that_never_ends_is_named_and_the_others_are_timed():
    x = torch.zeros(2**20, device="cuda")
    right, endless = (
        lower(double_some_day_kernel, x, BLOCK=1024, ENDLESS=endless) for endless in (False, True)
    )
    candidates = [
        Candidate(code_as_is(right, right.cubin)),
        Candidate(code_as_is(endless, endless.cubin), "endless"),
        Candidate(code_as_is(right, right.cubin), "again"),
    ]
    constants = {"BLOCK": 1024, "ENDLESS": False}
    launch = requested("diagnose", double_some_day_kernel, (1024,), (x,), constants)
    with packed(launch) as own:
        said = timed_together(candidates, [], own, timed_there)
    assert [each.kind for each in said.done] == ["again"]
    assert said.dropped == ("endless: did not end within 3 s",)


def test_a_gluon_kernel_is_timed_although_it_is_not_followed():
    x, out = torch.ones(2**24, device="cuda"), torch.zeros(2**24, device="cuda")
    said = diagnose(copy_kernel, (2**24 // 1024,), x, out, 1024, 4)
    assert not (out != 0).any()
    assert said.measured_us > 0
    assert said.explained is None
    assert "measured " in str(said)
