"""A promise to the compiler that does not hold: a note where no access goes elsewhere by it."""

import numpy as np
import pytest
import torch

from course import CourseError, cost, diagnose, draw, replay
from course.tracing.coalescing import _go_elsewhere
from tests.tracing import kernels_uneven as kernels

PROMISE = "promises by tl.max_contiguous that lane 72 holds the neighbor of what lane 71 holds"
M, N, K = 200, 64, 32
SIZES = {"BLOCK_M": 128, "BLOCK_N": N, "BLOCK_K": K}


def product():
    a, b = torch.zeros(M, K, dtype=torch.float16), torch.zeros(K, N, dtype=torch.float16)
    return kernels.product_kernel, (2,), a, b, torch.zeros(M, N), M, N, K


def test_rows_that_begin_again_cost_what_they_cost_and_the_promise_is_noted():
    counted = cost(*product(), **SIZES, target="H200")
    assert counted.exact and counted.bytes_loaded == 2 * 2 * (128 * K + K * N)
    assert PROMISE in str(counted) and "No access that was followed goes elsewhere" in str(counted)
    assert PROMISE in str(diagnose(*product(), **SIZES, target="H200"))
    assert PROMISE in draw.access(*product(), **SIZES, target="H200").alt


def test_replay_goes_on_past_a_promise_that_does_not_hold_and_says_so():
    shown = replay(*product(), program=1, **SIZES)
    assert shown.recording.failure is None and shown.steps[-1].touches[0].kind == "store"
    assert any(PROMISE in note for note in shown.trace["notes"])


@pytest.mark.parametrize("function", [cost, diagnose])
def test_a_promise_by_which_the_compiled_kernel_touches_other_elements_is_refused(function):
    args = torch.zeros(1024), torch.zeros(1024), 1002
    words = r"line \d+: Program 0 promises by .* The compiled kernel touches other elements by it"
    with pytest.raises(CourseError, match=words):
        function(kernels.around_kernel, (1,), *args, BLOCK=1024, target="H200")


def test_an_instruction_touches_what_follows_its_first_lane():
    def elsewhere(pointers, active=(True,) * 4):
        return _go_elsewhere(np.array([pointers]), np.array([active]), itemsize=4)

    assert not elsewhere([16, 20, 24, 28])
    assert elsewhere([16, 20, 0, 4])
    assert elsewhere([20, 24, 28, 32])  # no multiple of 16
    assert elsewhere([16, 20, 24, 28], (True, True, False, False))
    assert not elsewhere([16, 0, 0, 0], (False,) * 4)
