"""replay: what is recorded of a launch, step by step, and what is kept of it."""

import base64
import json
import zlib

import msgspec
import numpy as np
import pytest
import torch
import triton.language as tl

from course import CourseError, check, cost, replay
from course.tracing.address_map import Argument
from course.tracing.downsample import Panel, unpacked
from course.tracing.records import Element, Step, Value
from course.tracing.steps import MOST_STEPS
from tests.support import trace_kernels as kernels
from tests.support import wrong_answers
from tests.support.processes import computed_s


def floats(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def add(n=1000, grid=(4,), **options):
    tensors = floats(n), floats(n), floats(n)
    return replay(kernels.add_kernel, grid, *tensors, n, BLOCK_SIZE=256, **options)


def row_sum(rows, columns, **options):
    x, out = floats(rows, columns), floats(rows)
    return replay(kernels.row_sum_kernel, (rows,), x, out, columns, **options)


def lines(shown):
    """The lines of the steps, counted from the kernel's first."""
    return [step.line - shown.recording.functions[0].line for step in shown.steps]


def variables(shown):
    """What each variable was set to last."""
    return {name: value for step in shown.steps for name, value in step.sets.items()}


def saved_steps(program):
    """The steps that a notebook keeps."""
    content = zlib.decompress(base64.b64decode(program["steps"]))
    return msgspec.json.decode(content, type=list[Step])


def test_the_steps_of_a_program():
    shown = add(program=3)
    assert shown.opened == (3, 0, 0)
    assert lines(shown) == [1, 2, 3, 4, 5, 6]
    arguments, offsets, mask, x, y, store = shown.steps
    assert arguments.sets["n_elements"].text == "1000"
    assert arguments.sets["x_ptr"].of == "x_ptr"
    assert msgspec.structs.replace(offsets.sets["offsets"], data=None) == Value(
        dtype="int32", shape=(256,), cells=(8, 32), patch=(1, 1), least=768, most=1023
    )
    assert offsets.sets["offsets"].data.numbers.tolist() == list(range(768, 1024))
    assert mask.sets["mask"].data.numbers.sum() == 1000 - 768
    assert np.allclose(x.sets["x"].data.numbers[:232], floats(1000)[768:].numpy())
    assert x.sets["x"].masked == 24
    (load,) = x.touches
    assert (load.kind, load.tensor, load.outside) == ("load", 0, 0)
    assert load.text == "loads x_ptr[768] … x_ptr[999] (232 lanes, 24 masked)"
    assert (store.touches[0].kind, store.sets) == ("store", {})
    stored = store.touches[0].value.data.numbers
    assert np.allclose(stored[:232], 2 * floats(1000)[768:].numpy())
    assert y.touches[0].tensor == 1


def test_an_element_opens_the_program_that_wrote_it():
    assert add(element=("out_ptr", 999)).opened == (3, 0, 0)
    x, element = floats(64, 64), ("c_ptr", (40, 3))
    shown = replay(kernels.matmul_kernel, (2, 2), x, x, x.clone(), 64, BLOCK=32, element=element)
    assert shown.opened == (1, 0, 0)
    assert shown.trace["opened"]["at"] == {"tensor": 2, "cell": 40 * 64 + 3}
    writer = unpacked(shown.recording.tensors[2].writer).reshape(64, 64)
    # The first axis of the grid, the rows of tiles, is fastest.
    assert (writer[::32, ::32] == [[1, 3], [2, 4]]).all()


@pytest.mark.parametrize("element", ["out_ptr", "x_ptr"])
def test_an_element_may_be_named_by_either_of_two_names(element):
    x = floats(64)
    args = kernels.double_in_place_kernel, (4,), x, x
    assert replay(*args, BLOCK_SIZE=16, element=(element, 40)).opened == (2, 0, 0)


@pytest.mark.parametrize(
    ("element", "words"),
    [
        (("none", 3), "No tensor is called 'none'"),
        (("out_ptr", 5000), "no element"),
        (("out_ptr", (1, 2)), "no element"),
        ("out_ptr", "element takes"),
        (("x_ptr", 3), "No program that was run writes x_ptr"),
        *((("out_ptr", index), "must be whole numbers") for index in ("abc", None, slice(3), 1.5)),
    ],
)
def test_an_element_that_nobody_wrote_is_a_sentence(element, words):
    with pytest.raises(CourseError, match=words):
        add(element=element)


def test_a_grid_that_asks_for_what_the_launch_lacks_is_a_sentence():
    with pytest.raises(CourseError, match="The grid asks for 'BLOCK', and this launch gives x_ptr"):
        add(grid=lambda meta: (meta["BLOCK"],))


@pytest.mark.parametrize("program", [4, -1, (0, 1), "1", 1.5])
def test_a_program_outside_the_grid_is_a_sentence(program):
    with pytest.raises(CourseError, match="There is no program"):
        add(program=program)


def test_a_loop_is_stepped_turn_by_turn():
    shown = row_sum(3, 100, BLOCK_SIZE=64, program=1)
    assert lines(shown) == [1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7, 4, 8]
    starts = [step.sets["start"].text for step in shown.steps if "start" in step.sets]
    assert starts == ["0", "64"]
    total = float(variables(shown)["total"].text)
    assert total == pytest.approx(floats(3, 100)[1].sum().item(), rel=1e-4)
    assert shown.trace["loops"] == [(4, 7)]


def test_a_helper_is_stepped_into():
    shown = replay(kernels.helper_kernel, (1,), floats(64), floats(64), BLOCK_SIZE=64)
    assert [step.depth for step in shown.steps] == [0, 0, 0, 1, 1, 1, 0, 0]
    assert [function.name for function in shown.recording.functions] == ["helper_kernel", "half"]
    assert "y" in shown.steps[-2].sets


def build():
    import triton
    import triton.language as language

    @triton.jit
    def built_kernel(x_ptr):
        language.store(x_ptr, 1.0)

    return built_kernel


built_kernel = build()


def test_a_module_that_the_function_around_a_kernel_imports_is_no_variable():
    steps = replay(built_kernel, (1,), torch.zeros(1)).steps
    assert {name for step in steps for name in step.sets} == {"x_ptr"}


def test_the_function_of_a_reduction_is_not_stepped_into():
    shown = replay(kernels.row_max_kernel, (1,), floats(64), floats(1), BLOCK_SIZE=64)
    assert len(shown.steps) == 4
    most = float(shown.steps[2].sets["most"].text)
    assert most == pytest.approx(floats(64).max().item(), rel=1e-5)


def test_a_constant_that_is_a_type_is_shown_by_its_name():
    launch = (kernels.converted_dot_kernel, (1,), floats(32, 32), floats(32, 32), tl.float32)
    assert variables(replay(*launch))["DTYPE"].text == "fp32"
    assert "65,536 operations of tl.dot in float32 (ieee)" in str(cost(*launch))


def test_a_call_over_several_lines_is_one_step():
    tensors = floats(512), floats(1024), floats(512)
    shown = replay(kernels.two_on_a_line_kernel, (2,), *tensors, BLOCK_SIZE=256)
    assert lines(shown) == [1, 2, 3]
    assert [touch.tensor for touch in shown.steps[-1].touches] == [0, 1, 2]


def test_a_kernel_that_fails_opens_where_it_fails():
    shown = replay(kernels.failing_kernel, (4,), floats(256), floats(256), BLOCK_SIZE=16)
    assert lines(shown) == [1, 2, 3, 4, 5]
    assert "Shape element 0 must be a power of 2" in shown.steps[-1].error
    assert shown.trace["opened"]["at"] == {"step": -1}
    assert "must be a power of 2" in str(shown)


def test_a_failure_in_a_helper_opens_there():
    shown = replay(kernels.failing_in_helper_kernel, (1,), floats(16), floats(16), BLOCK_SIZE=16)
    assert shown.steps[-1].depth == 1
    assert "Shape element 0" in shown.steps[-1].error
    assert not any(step.error for step in shown.steps[:-1])


def test_only_what_a_load_gives_has_its_mask():
    values = variables(replay(kernels.turned_kernel, (1,), floats(4, 4), floats(4, 4)))
    assert values["plain"].masked == 8
    assert values["turned"].mask is None


def test_lanes_before_a_tensor_are_outside_it():
    shown = replay(kernels.before_kernel, (1,), floats(64)[20:30], floats(16), BLOCK_SIZE=16)
    load = next(touch for step in shown.steps for touch in step.touches)
    assert (load.tensor, load.outside) == (0, 6)
    assert load.text == "loads x_ptr[0] … x_ptr[9] (16 lanes, 6 outside the tensor)"


def test_a_read_past_the_end_opens_there():
    x = floats(1000)
    shown = replay(kernels.add_kernel, (5,), x, x, x.clone(), 2000, BLOCK_SIZE=256)
    assert shown.opened == (3, 0, 0)
    assert lines(shown)[-1] == 4
    assert shown.steps[-1].touches[0].outside == 24
    assert "Program 3 read memory that is none of the kernel's arguments" in shown.trace["failure"]


def test_a_loop_without_end_is_stopped(monkeypatch):
    monkeypatch.setattr("course.tracing.api.TRACE_S", 1)
    shown = replay(kernels.endless_kernel, (2,), floats(4).abs())
    assert "Program 0 was stopped: the launch had computed for 1 s." in shown.trace["failure"]
    assert 10 < len(shown.steps) <= MOST_STEPS + 1
    assert shown.steps[-1].error


def test_a_program_that_the_launch_does_not_reach_is_named(monkeypatch):
    monkeypatch.setattr("course.tracing.api.TRACE_S", 1)
    shown = replay(kernels.endless_kernel, (4,), floats(4).abs(), program=3)
    text = "Program 3 was not reached before the launch ended: this is program 0."
    assert text in str(shown)
    assert text in shown.trace["notes"]


def test_steps_that_are_not_kept_are_told_of():
    launch = kernels.row_sum_kernel, (1,), floats(8 * 2000), torch.empty(1), 8 * 2000
    said = str(replay(*launch, BLOCK_SIZE=8))
    assert "more steps, and others that were not kept." in said


def test_nan_and_infinity_are_seen():
    x = floats(4096)
    x[3], x[2000], x[2001] = float("inf"), float("nan"), 5.0
    shown = replay(kernels.odd_values_kernel, (1,), x, floats(4096), BLOCK_SIZE=4096)
    value = shown.steps[2].sets["x"]
    assert (value.nan, value.inf, value.patch) == (1, 1, (1, 4))
    cells = value.data.numbers
    assert np.isinf(cells[0]) and np.isnan(cells[500])  # neither is the first of its four
    assert value.most < 6
    assert "1 NaN, 1 infinite" in str(shown)


def test_programs_that_write_the_same_element_are_marked():
    plain, atomic = (
        replay(kernels.shared_total_kernel, (8,), floats(8), torch.zeros(1), ATOMIC=flag)
        for flag in (False, True)
    )
    assert "1 element of total_ptr was written by several programs." in plain.trace["notes"]
    assert atomic.trace["notes"] == []
    assert atomic.steps[-1].touches[0].kind == "update"


def test_reads_of_what_nobody_wrote_are_marked():
    tensors = floats(256), torch.zeros(8), floats(1)
    shown = replay(kernels.half_written_kernel, (4,), *tensors, BLOCK_SIZE=64)
    assert "4 elements of part_ptr were read, and written by nobody." in shown.trace["notes"]


def test_bfloat16_is_shown_as_numbers_and_said_to_compute_wrongly():
    x = floats(256).bfloat16()
    shown = replay(kernels.add_kernel, (1,), x, x, x.clone(), 256, BLOCK_SIZE=256)
    assert np.allclose(shown.steps[3].sets["x"].data.numbers, x.float().numpy())
    assert any("bfloat16" in note for note in shown.trace["notes"])


def test_a_grid_too_large_runs_a_sample_and_the_program_asked_for():
    x = torch.empty(2**24, device="meta")
    shown = replay(kernels.add_kernel, (2**20,), x, x, x, 2**24, BLOCK_SIZE=16, program=777_777)
    assert shown.opened == (777_777, 0, 0)
    assert "Of 1,048,576 programs a sample of 1,025 was run." in shown.trace["notes"]


def test_the_tensors_are_left_as_they_were():
    out = torch.full((256,), 7.0)
    replay(kernels.add_kernel, (1,), floats(256), floats(256), out, 256, BLOCK_SIZE=256)
    assert (out == 7).all()


def test_programs_of_64_times_the_elements_take_little_longer():
    def traced_s(block_size):
        n, start = 256 * block_size, computed_s()
        x = floats(n)
        shown = replay(kernels.add_kernel, (256,), x, x, x.clone(), n, BLOCK_SIZE=block_size)
        assert len(shown.recording.ran) == 256
        return computed_s() - start

    add()  # starts the child
    assert traced_s(1024) < 4 * traced_s(16)  # 1.4 times


def saved_size(shown, tmp_path):
    return shown.to_html(tmp_path / "replay.html").stat().st_size


def test_what_is_saved_is_small(tmp_path):
    n = 256 * 1024
    x = floats(n)
    shown = replay(kernels.add_kernel, (256,), x, x, x.clone(), n, BLOCK_SIZE=1024)
    programs = [state["program"] for state in shown.trace["programs"]]
    assert programs == [(0, 0, 0), (1, 0, 0), (255, 0, 0)]
    assert saved_size(shown, tmp_path) < 200_000


def test_a_long_program_is_saved_in_part(tmp_path):
    shown = row_sum(2, 200 * 1024, BLOCK_SIZE=1024)
    saved = shown.trace["programs"][0]
    steps = saved_steps(saved)
    assert len(steps) < len(shown.steps) == saved["ran"]
    assert steps == shown.steps[: len(steps)]
    assert len(json.dumps(shown.trace["programs"])) <= 300_000
    assert saved_size(shown, tmp_path) < 500_000


def test_a_program_that_was_not_recorded_is_traced_when_asked_for():
    shown, sent = add(), []
    shown.send = sent.append
    shown._answer(None, {"hello": True}, None)
    shown._answer(None, {"program": [2, 0, 0]}, None)
    assert sent[0] == {"hello": True}
    assert sent[1]["recorded"]["program"] == (2, 0, 0)
    assert len(saved_steps(sent[1]["recorded"])) == 6


def test_a_notebook_keeps_the_steps_as_text_without_script(monkeypatch):
    monkeypatch.setenv("COURSE_STATIC", "1")
    bundle = add()._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert "stores out_ptr[0] … out_ptr[255] (256 lanes)" in bundle["text/html"]
    assert "<script" not in bundle["text/html"]


def test_a_failed_check_opens_at_the_first_wrong_program(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    checked = check("fill-a-vector", wrong_answers.off_by_one_program)
    assert 'check("fill-a-vector", off_by_one_program).replay()' in str(checked)
    shown = checked.replay()
    assert shown.opened == (1, 0, 0)
    assert shown.recording.element == Element("out_ptr", (128,))
    assert any("At [128]" in note for note in shown.trace["notes"])
    past = check("fill-a-vector", wrong_answers.past_the_end).replay()
    assert past.opened == (2, 0, 0)
    assert past.steps[-1].touches[0].outside > 0
    never = check("scale-and-shift", wrong_answers.short_grid).replay()
    assert any("never written" in note for note in never.trace["notes"])
    assert never.steps[never.trace["opened"]["at"]["step"]].touches
    with pytest.raises(CourseError, match="nothing to step through"):
        check("fill-a-vector", None).replay()


def test_a_tuner_that_remembers_can_be_stepped_through(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    shown = check("tuned-in-place", wrong_answers.tuned_in_place).replay()
    assert shown.recording.kernel == "in_place_kernel"
    assert "x" in shown.steps[-3].sets


SHAPES = [
    (),
    (1,),
    (7,),
    (1000,),
    (5000,),
    (3, 5),
    (100, 3),
    (200, 300),
    (2, 3, 4),
    (70_000,),
    (1, 1),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_panels_have_a_cell_for_every_element(shape):
    panel = Panel(shape)
    elements = np.arange(int(np.prod(shape)))
    cells = panel.of(elements)
    down, across = panel.cells
    assert across <= 64 and (down <= 64 or panel.matrix[0] == 1)
    assert set(cells) <= set(range(down * across))
    assert len(panel.shown(elements)) == len(set(cells))
    assert (panel.first(elements, elements, -1)[cells] <= elements).all()


def argument_of(tensor, address):
    return Argument("x", "float32", tuple(tensor.shape), tensor.stride(), address, 4)


@pytest.mark.parametrize(
    "tensor",
    [
        floats(12),
        floats(3, 4),
        floats(3, 4).T,
        floats(6, 8)[1:4, ::2],
        floats(2, 3, 4).permute(2, 0, 1),
        floats(5)[2:],
        floats(4, 1).expand(4, 3),
        floats(1)[:0],
        torch.tensor(3.0),
    ],
    ids=lambda tensor: f"{tuple(tensor.shape)} {tensor.stride()}",
)
def test_each_address_has_its_element(tensor):
    address = tensor.data_ptr() or 4096  # PyTorch says 0 for an empty one
    argument = argument_of(tensor, address)
    offsets = [int(np.dot(index, tensor.stride())) for index in np.ndindex(*tensor.shape)]
    places = np.array([address + 4 * offset for offset in offsets], dtype=np.uint64)
    expected = np.arange(tensor.numel())
    if 0 in tensor.stride():  # a broadcast element stands for all that lie there
        expected = expected // 3 * 3
    assert argument.numbers(places).tolist() == expected.tolist()
    beside = np.array([address - 4, address + 4 * 10_000], dtype=np.uint64)
    assert (argument.numbers(beside) == -1).all()


def test_elements_between_those_of_a_view_are_none_of_it():
    x = floats(6, 8)
    argument = argument_of(x[:, ::2], x.data_ptr())
    places = np.array([x[2, 3].data_ptr(), x[2, 4].data_ptr()], dtype=np.uint64)
    assert argument.numbers(places).tolist() == [-1, 2 * 4 + 2]
