"""How often each program runs a loop, computed from what it is given."""

from dataclasses import replace

import torch

from course import lower
from course.diagnosing.evidence import Evidence
from course.diagnosing.iterations import iterations_of
from course.gpus.peaks import gpu_of
from course.tracing.launch import requested
from tests.diagnosing import kernels_iterations
from tests.diagnosing.launches import empty


def computed(launch):
    asked = requested("diagnose", launch.kernel, launch.grid, launch.args, launch.options)
    lowered = lower(launch.kernel, *launch.args, target="sm_90", **launch.options)
    return iterations_of(Evidence(asked, lowered, None, gpu_of("H200")))


def test_bounds_that_are_loaded_are_those_of_each_program():
    (loop,) = computed(kernels_iterations.ragged(kernels_iterations.UNLIKE))
    assert loop.each.tolist() == (kernels_iterations.UNLIKE // kernels_iterations.BLOCK).tolist()
    lengths = torch.tensor([0, 1, 256, 257, 700])
    (loop,) = computed(kernels_iterations.ragged(lengths, grid=5))
    assert loop.each.tolist() == [0, 1, 1, 2, 3]


def test_bounds_are_computed_from_the_number_of_a_program_and_of_all():
    (loop,) = computed(kernels_iterations.IN_TURN)
    assert loop.each.tolist() == [8] * 7 + [4]


def test_nothing_is_known_of_bounds_without_values_or_outside_their_tensor():
    launch = kernels_iterations.ragged(kernels_iterations.ALIKE)
    x, begins, *rest = launch.args
    assert computed(replace(launch, args=(x, empty(*begins.shape, dtype=torch.int32), *rest))) == []
    assert computed(replace(launch, grid=(kernels_iterations.ROWS + 1,))) == []


def test_a_load_whose_place_it_has_loaded_itself_is_one_after_the_other():
    (loop,) = computed(kernels_iterations.CHAIN)
    assert (loop.each.tolist(), loop.rounds) == ([7, 7], 1)
