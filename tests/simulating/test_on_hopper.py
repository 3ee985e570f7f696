"""on_hopper: launches where it can, and says a sentence elsewhere."""

import pytest
import torch

from course import MODE, on_hopper
from course.simulating import hopper
from course.triton_internals.patching import patched
from tests.simulating import kernels


@pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: there is a GPU in this session")
def test_without_a_gpu_nothing_is_launched_and_a_sentence_says_so(capsys):
    x = torch.zeros(4)
    on_hopper(kernels.add_kernel, (1,), x, x, x, 4, 256)
    said = capsys.readouterr().out
    assert said.startswith("add_kernel is not launched here: this session has no GPU.")


@pytest.mark.parametrize(
    ("capability", "triton", "said"),
    [((12, 0), "3.9.0", "capability 9.0"), ((9, 0), "3.8.0", "Triton 3.9"), ((9, 0), "3.10.1", "")],
)
def test_another_gpu_or_an_older_triton_is_named(capability, triton, said):
    class Gpu:
        gpu = True

    fake_cuda = patched(torch.cuda, get_device_capability=lambda: capability)
    with fake_cuda, patched(hopper, MODE=Gpu), patched(hopper.triton, __version__=triton):
        problem = hopper._problem()
    assert (said in problem) and bool(problem) == bool(said)
