"""replay: what is recorded of a launch, step by step, and what is kept of it."""

import base64
import zlib

import numpy as np
import pytest
import torch

from course import CourseError, check, replay
from course.tracing.address_map import Argument
from course.tracing.downsample import Panel, unpacked
from course.tracing.encode import Blob
from course.tracing.steps import MOST_STEPS
from tests.support import trace_kernels as kernels
from tests.support.processes import computed_s


def floats(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def add(n=1000, grid=(4,), **kwargs):
    return replay(
        kernels.add_kernel, grid, floats(n), floats(n), floats(n), n, BLOCK_SIZE=256, **kwargs
    )


def lines(found):
    return [step["line"] - found.content["source"][0]["line"] for step in found.steps]


def numbers(found, value, program=None):
    """A value's cells."""
    recorded = next(
        each
        for each in found.content["recorded"]
        if tuple(each["program"]) == (program or found.opened)
    )
    blob = Blob()
    blob.content += zlib.decompress(base64.b64decode(recorded["blob"]))
    return blob.read(value["data"])


def test_the_steps_of_a_program():
    found = add(program=3)
    assert found.opened == (3, 0, 0)
    assert lines(found) == [1, 2, 3, 4, 5, 6]
    arguments, offsets, mask, x, y, store = found.steps
    assert arguments["sets"]["n_elements"]["text"] == "1000"
    assert arguments["sets"]["x_ptr"]["of"] == "x_ptr"
    assert offsets["sets"]["offsets"] | {"data": 0} == {
        "dtype": "int32", "shape": [256], "cells": [8, 32], "patch": [1, 1], "data": 0, "least": 768, "most": 1023
    }  # fmt: skip
    assert numbers(found, offsets["sets"]["offsets"]).tolist() == list(range(768, 1024))
    assert numbers(found, mask["sets"]["mask"]).sum() == 1000 - 768
    assert np.allclose(numbers(found, x["sets"]["x"])[:232], floats(1000)[768:].numpy())
    assert x["sets"]["x"]["masked"] == 24
    touch = x["touches"][0]
    del touch["cells"]
    assert touch == {
        "kind": "load", "lanes": 232, "masked": 24, "tensor": 0, "outside": 0, "first": "x_ptr[768]", "last": "x_ptr[999]"
    }  # fmt: skip
    assert store["touches"][0]["kind"] == "store" and store["sets"] == {}
    assert np.allclose(
        numbers(found, store["touches"][0]["value"])[:232], 2 * floats(1000)[768:].numpy()
    )
    assert y["touches"][0]["tensor"] == 1


def test_who_wrote_an_element():
    assert add(element=("out_ptr", 999)).opened == (3, 0, 0)
    x = floats(64, 64)
    found = replay(
        kernels.matmul_kernel,
        (2, 2),
        x,
        x,
        floats(64, 64),
        64,
        BLOCK=32,
        element=("c_ptr", (40, 3)),
    )
    assert found.opened == (1, 0, 0)
    assert found.trace["opened"]["at"] == {"tensor": 2, "cell": 40 * 64 + 3}
    writer = unpacked(found.trace["tensors"][2]["writer"]).reshape(64, 64)
    assert (
        writer[::32, ::32] == [[1, 3], [2, 4]]
    ).all()  # the first axis of the grid, the rows of tiles, is fastest


@pytest.mark.parametrize(
    "element, words",
    [(("none", 3), "No tensor is called 'none'"), (("out_ptr", 5000), "no element"), (("out_ptr", (1, 2)), "no element"),
     ("out_ptr", "element takes"), (("x_ptr", 3), "No program that was run writes x_ptr")],
)  # fmt: skip
def test_an_element_that_nobody_wrote(element, words):
    with pytest.raises(CourseError, match=words):
        add(element=element)


@pytest.mark.parametrize("program", [4, -1, (0, 1), "1", 1.5])
def test_a_program_that_is_none(program):
    with pytest.raises(CourseError, match="There is no program"):
        add(program=program)


def test_a_loop_is_stepped_turn_by_turn():
    found = replay(
        kernels.row_sum_kernel, (3,), floats(3, 100), floats(3), 100, BLOCK_SIZE=64, program=1
    )
    assert lines(found) == [1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7, 4, 8]
    assert [step["sets"]["start"]["text"] for step in found.steps if "start" in step["sets"]] == [
        "0",
        "64",
    ]
    total = float(
        next(step for step in reversed(found.steps) if "total" in step["sets"])["sets"]["total"][
            "text"
        ]
    )
    assert total == pytest.approx(floats(3, 100)[1].sum().item(), rel=1e-4)
    first, last = found.trace["loops"][0]
    assert (first, last) == (4, 7)


def test_a_helper_is_stepped_into():
    found = replay(kernels.helper_kernel, (1,), floats(64), floats(64), BLOCK_SIZE=64)
    assert [step["depth"] for step in found.steps] == [0, 0, 0, 1, 1, 1, 0, 0]
    assert [each["name"] for each in found.content["source"]] == ["helper_kernel", "half"]
    assert "y" in found.steps[-2]["sets"]


def test_what_a_reduction_combines_with_is_no_step():
    found = replay(kernels.row_max_kernel, (1,), floats(64), floats(1), BLOCK_SIZE=64)
    assert len(found.steps) == 4
    assert float(found.steps[2]["sets"]["most"]["text"]) == pytest.approx(
        floats(64).max().item(), rel=1e-5
    )


def test_a_call_over_several_lines_is_one_step():
    found = replay(
        kernels.two_on_a_line_kernel, (2,), floats(512), floats(1024), floats(512), BLOCK_SIZE=256
    )
    assert lines(found) == [1, 2, 3]
    assert [touch["tensor"] for touch in found.steps[-1]["touches"]] == [0, 1, 2]


def test_a_kernel_that_fails_opens_where_it_fails():
    found = replay(kernels.failing_kernel, (4,), floats(256), floats(256), BLOCK_SIZE=16)
    assert lines(found) == [1, 2, 3, 4, 5]
    assert "Shape element 0 must be a power of 2" in found.steps[-1]["error"]
    assert found.trace["opened"]["at"] == {"step": -1}
    assert "must be a power of 2" in str(found)


def test_a_failure_in_a_helper_opens_there():
    found = replay(kernels.failing_in_helper_kernel, (1,), floats(16), floats(16), BLOCK_SIZE=16)
    assert found.steps[-1]["depth"] == 1
    assert "Shape element 0" in found.steps[-1]["error"]
    assert [step["error"] for step in found.steps[:-1]] == [""] * (len(found.steps) - 1)


def test_only_what_a_load_gives_has_its_mask():
    found = replay(kernels.turned_kernel, (1,), floats(4, 4), floats(4, 4))
    sets = {name: value for step in found.steps for name, value in step["sets"].items()}
    assert sets["plain"]["masked"] == 8
    assert "masked" not in sets["turned"]


def test_an_element_written_by_another_name():
    x = floats(64)
    assert replay(
        kernels.double_in_place_kernel, (4,), x, x, BLOCK_SIZE=16, element=("out_ptr", 40)
    ).opened == (2, 0, 0)
    assert replay(
        kernels.double_in_place_kernel, (4,), x, x, BLOCK_SIZE=16, element=("x_ptr", 40)
    ).opened == (2, 0, 0)


def test_lanes_before_a_tensor_are_outside_it():
    memory = floats(64)
    found = replay(kernels.before_kernel, (1,), memory[20:30], floats(16), BLOCK_SIZE=16)
    touch = next(touch for step in found.steps for touch in step["touches"])
    assert (touch["tensor"], touch["outside"], touch["first"], touch["last"]) == (
        0,
        6,
        "x_ptr[0]",
        "x_ptr[9]",
    )


@pytest.mark.parametrize("index", ["abc", None, slice(3), 1.5])
def test_an_index_that_is_none(index):
    with pytest.raises(CourseError, match="must be whole numbers"):
        add(element=("out_ptr", index))


def test_a_read_past_the_end_opens_there():
    n = 1000
    found = replay(kernels.add_kernel, (5,), floats(n), floats(n), floats(n), 2000, BLOCK_SIZE=256)
    assert found.opened == (3, 0, 0)
    assert lines(found)[-1] == 4
    assert found.steps[-1]["touches"][0]["outside"] == 24
    assert "Program 3 read memory that is none of the kernel's arguments" in found.trace["failure"]


def test_a_loop_without_end_is_stopped(monkeypatch):
    monkeypatch.setattr("course.tracing.replay.TRACE_S", 1)
    found = replay(kernels.endless_kernel, (2,), floats(4).abs())
    assert "Program 0 was stopped: the launch had computed for 1 s." in found.trace["failure"]
    assert 10 < len(found.steps) <= MOST_STEPS + 1
    assert found.steps[-1]["error"]


def test_nan_and_infinity_are_seen():
    x = floats(4096)
    x[3], x[2000], x[2001] = float("inf"), float("nan"), 5.0
    found = replay(kernels.odd_values_kernel, (1,), x, floats(4096), BLOCK_SIZE=4096)
    value = found.steps[2]["sets"]["x"]
    assert (value["nan"], value["inf"], value["patch"]) == (1, 1, [1, 4])
    cells = numbers(found, value)
    assert np.isinf(cells[0]) and np.isnan(cells[500])  # neither is the first of its four
    assert value["most"] < 6
    assert "1 NaN, 1 infinite" in str(found)


def test_programs_that_write_the_same_element_are_marked():
    found = replay(kernels.shared_total_kernel, (8,), floats(8), torch.zeros(1), ATOMIC=False)
    assert "1 element of total_ptr was written by several programs." in found.trace["notes"]
    atomic = replay(kernels.shared_total_kernel, (8,), floats(8), torch.zeros(1), ATOMIC=True)
    assert atomic.trace["notes"] == []
    assert atomic.steps[-1]["touches"][0]["kind"] == "update"


def test_reads_of_what_nobody_wrote_are_marked():
    found = replay(
        kernels.half_written_kernel, (4,), floats(256), torch.zeros(8), floats(1), BLOCK_SIZE=64
    )
    assert "4 elements of part_ptr were read, and written by nobody." in found.trace["notes"]


def test_bfloat16_is_shown_as_numbers_and_said_to_compute_wrongly():
    x = floats(256).bfloat16()
    found = replay(kernels.add_kernel, (1,), x, x, x.clone(), 256, BLOCK_SIZE=256)
    assert np.allclose(numbers(found, found.steps[3]["sets"]["x"]), x.float().numpy())
    assert any("bfloat16" in note for note in found.trace["notes"])


def test_a_grid_too_large_runs_a_sample_and_the_program_asked_for():
    x = torch.empty(2**24, device="meta")
    found = replay(kernels.add_kernel, (2**20,), x, x, x, 2**24, BLOCK_SIZE=16, program=777_777)
    assert found.opened == (777_777, 0, 0)
    assert any(
        "Of 1,048,576 programs a sample of 1,025 was run." in note for note in found.trace["notes"]
    )


def test_the_tensors_are_left_as_they_were():
    out = torch.full((256,), 7.0)
    replay(kernels.add_kernel, (1,), floats(256), floats(256), out, 256, BLOCK_SIZE=256)
    assert (out == 7).all()


def test_programs_of_64_times_the_elements_take_little_longer():
    def traced_s(block_size):
        n, start = 256 * block_size, computed_s()
        x = floats(n)
        assert (
            len(
                replay(
                    kernels.add_kernel, (256,), x, x, x.clone(), n, BLOCK_SIZE=block_size
                ).content["ran"]
            )
            == 256
        )
        return computed_s() - start

    add()  # starts the child
    assert traced_s(1024) < 4 * traced_s(16)  # 1.4 times


def saved_size(found, tmp_path):
    return found.to_html(tmp_path / "replay.html").stat().st_size


def test_what_is_saved_is_small(tmp_path):
    n = 256 * 1024
    x = floats(n)
    found = replay(kernels.add_kernel, (256,), x, x, x.clone(), n, BLOCK_SIZE=1024)
    assert [each["program"] for each in found.trace["programs"]] == [
        [0, 0, 0],
        [1, 0, 0],
        [255, 0, 0],
    ]
    assert saved_size(found, tmp_path) < 200_000


def test_a_long_program_is_saved_in_part(tmp_path):
    x = floats(256, 4096)
    found = replay(
        kernels.row_sum_kernel, (2,), floats(2, 200 * 1024), floats(2), 200 * 1024, BLOCK_SIZE=1024
    )
    saved = found.trace["programs"][0]
    assert len(saved["steps"]) < len(found.steps) == saved["part"]
    assert saved_size(found, tmp_path) < 500_000
    blob = zlib.decompress(base64.b64decode(saved["blob"]))
    assert max(
        each["data"][1]
        for step in saved["steps"]
        for each in step["sets"].values()
        if "data" in each
    ) < len(blob)
    assert x.shape == (256, 4096)


def test_a_program_that_was_not_recorded_is_traced_when_asked_for():
    found, sent = add(), []
    found.send = sent.append
    found._answer(None, {"hello": True}, None)
    found._answer(None, {"program": [2, 0, 0]}, None)
    assert sent[0] == {"hello": True}
    assert sent[1]["recorded"]["program"] == [2, 0, 0]
    assert len(sent[1]["recorded"]["steps"]) == 6


def test_what_a_notebook_keeps(monkeypatch):
    monkeypatch.setenv("COURSE_STATIC", "1")
    bundle = add()._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert "stores out_ptr[0] … out_ptr[255] (256 lanes)" in bundle["text/html"]
    assert "<script" not in bundle["text/html"]


def test_a_failed_check_opens_at_the_first_wrong_program(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    from tests.support import wrong_answers

    found = check("01.1", wrong_answers.off_by_one_program)
    assert 'check("01.1", off_by_one_program).replay()' in str(found)
    shown = found.replay()
    assert shown.opened == (1, 0, 0)
    assert shown.content["element"] == ["out_ptr", [128]]
    assert any("At [128]" in note for note in shown.trace["notes"])
    past = check("01.1", wrong_answers.past_the_end).replay()
    assert past.opened == (2, 0, 0)
    assert past.steps[-1]["touches"][0]["outside"] > 0
    never = check("01.2", wrong_answers.short_grid).replay()
    assert any("never written" in note for note in never.trace["notes"])
    with pytest.raises(CourseError, match="nothing to step through"):
        check("01.1", None).replay()


def test_a_tuner_that_remembers_can_be_stepped_through(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    from tests.support import wrong_answers

    shown = check("04.7", wrong_answers.tuned_in_place).replay()
    assert shown.content["kernel"] == "in_place_kernel"
    assert "x" in shown.steps[-3]["sets"]


@pytest.mark.parametrize(
    "shape",
    [(), (1,), (7,), (1000,), (5000,), (3, 5), (100, 3), (200, 300), (2, 3, 4), (70_000,), (1, 1)],
)
def test_panels_have_a_cell_for_every_element(shape):
    panel = Panel(shape)
    size = int(np.prod(shape))
    cells = panel.of(np.arange(size))
    down, across = panel.cells
    assert across <= 64 and (down <= 64 or panel.matrix[0] == 1)
    assert set(cells) <= set(range(down * across))
    assert len(panel.shown(np.arange(size))) == len(set(cells))
    assert (panel.first(np.arange(size), np.arange(size), -1)[cells] <= np.arange(size)).all()


@pytest.mark.parametrize(
    "tensor",
    [floats(12), floats(3, 4), floats(3, 4).T, floats(6, 8)[1:4, ::2], floats(2, 3, 4).permute(2, 0, 1), floats(5)[2:],
     floats(4, 1).expand(4, 3), floats(1)[:0], torch.tensor(3.0)],
    ids=lambda tensor: f"{tuple(tensor.shape)} {tensor.stride()}",
)  # fmt: skip
def test_addresses_are_told_apart_by_element(tensor):
    address = tensor.data_ptr() or 4096  # PyTorch says 0 for an empty one
    argument = Argument("x", "float32", tuple(tensor.shape), tensor.stride(), address, 4)
    index = (
        np.indices(tensor.shape).reshape(tensor.ndim, -1)
        if tensor.ndim
        else np.zeros((0, 1), dtype=int)
    )
    places = address + 4 * (np.array(tensor.stride(), dtype=int) @ index)
    found = argument.numbers(np.atleast_1d(places).astype(np.uint64))
    expected = np.arange(tensor.numel())
    if 0 in tensor.stride():  # a broadcast element stands for all that lie there
        expected = expected // 3 * 3
    assert found.tolist() == expected.tolist()
    beside = np.array([address - 4, address + 4 * 10_000], dtype=np.uint64)
    assert (argument.numbers(beside) == -1).all()


def test_elements_between_those_of_a_view_are_none_of_it():
    x = floats(6, 8)
    view = x[:, ::2]
    argument = Argument("x", "float32", tuple(view.shape), view.stride(), view.data_ptr(), 4)
    assert argument.numbers(
        np.array([x[2, 3].data_ptr(), x[2, 4].data_ptr()], dtype=np.uint64)
    ).tolist() == [-1, 2 * 4 + 2]
