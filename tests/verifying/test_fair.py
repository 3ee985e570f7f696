"""verify calls no right function wrong, and no wrong one right, over tables of both."""

import pytest
import torch

from course.verifying.api import verify

from .planted_mistakes import MISTAKES
from .pytorch_functions import FUNCTIONS


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """On a busy machine, threads that wait for one another take ten times the CPU time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_pytorch_is_right_against_itself_in_every_dtype(name):
    example = FUNCTIONS[name]
    result = verify(lambda *tensors: example.function(*tensors), example.function, example.cases)
    assert {outcome.verdict for outcome in result.outcomes} == {"right"}, result


@pytest.mark.parametrize("name", FUNCTIONS)
def test_computed_in_float32_and_rounded_once_it_is_right(name):
    """As kernels compute what comes in 16 bits."""
    example = FUNCTIONS[name]
    reference = example.function

    def rounded_once(*tensors):
        wider = [each.float() if each.itemsize == 2 and each.is_floating_point() else each
                 for each in tensors]  # fmt: skip
        return reference(*wider).to(reference(*tensors).dtype)

    result = verify(rounded_once, reference, example.cases)
    assert not result.wrong, result
    left = [each.dtype for each in result.outcomes if each.verdict == "left to the GPU"]
    assert set(left) <= {"bfloat16"}


def test_the_tables_hold_enough():
    assert len(FUNCTIONS) >= 60 and len(MISTAKES) >= 60


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name):
    mistake = MISTAKES[name]
    result = verify(mistake.function, mistake.reference, mistake.cases)
    assert result.wrong, result
