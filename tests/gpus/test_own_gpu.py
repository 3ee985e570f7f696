"""The reader's own GPU: measured once, kept, and shown beside the recorded one."""

import dataclasses
import os
import subprocess
import sys

import nbformat
import pytest
import torch

import course
from course import CourseError, cost, draw, gpu_limits
from course.benching.result import recorded
from course.gpus import own_gpu as own_gpu_module
from course.gpus.measured import recorded_facts
from course.gpus.own_gpu import own_file, own_gpu
from course.gpus.peaks import gpu_of
from course.lessons import notebooks
from course.tracing import api as cost_module
from tests.support import trace_kernels as kernels

pytestmark = [pytest.mark.skipif(course.MODE.gpu, reason="needs CPU mode: a card is invented here")]

H200 = recorded_facts()
T4 = dataclasses.replace(
    H200,
    machine=dataclasses.replace(H200.machine, gpu="Tesla T4", date="2026-05-04"),
    multiprocessors=40, memory_tb_s=0.24, matmul_tflop_s=24.0, bf16_matmul_tflop_s=None,
)  # fmt: skip


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def own(data):
    (data / "gpu.json").write_text(T4.to_json())


def counted():
    x = torch.empty(2**14, device="meta")
    return cost(kernels.add_kernel, (16,), x, x, x.clone(), 2**14, BLOCK_SIZE=1024)


def test_nothing_is_shown_of_a_gpu_that_nobody_measured(data):
    assert own_gpu() is None
    assert counted().own is None
    texts = [
        str(counted()),
        draw.roofline(counted()).alt,
        draw.speeds(recorded("vector_add")).alt,
        draw.machine().alt,
    ]
    assert not any("measured on" in text or "comparison" in text for text in texts)


def test_cost_adds_the_least_time_by_the_measured_copy_roof(own):
    counts = counted()
    moved = 2 * 4 * 2**14  # one input is read, one output written
    least, l2 = counts.roofs_on(counts.own)
    assert (least.name, least.us) == ("memory", pytest.approx(moved / 0.24e12 * 1e6))
    asked = 3 * 4 * 2**14
    assert (l2.name, l2.us) == ("L2 cache", pytest.approx(asked / T4.l2_tb_s / 1e6))
    here, there = (line.strip() for line in str(counts).split("\n") if "at least" in line)
    assert here.startswith("H200: at least 27.3 ns, bound by memory (memory 27.3 ns, L2 cache")
    by_its_speeds = "Tesla T4, by the speeds measured on it: at least 546 ns"
    assert there == f"{by_its_speeds}, bound by memory (memory 546 ns, L2 cache 20.4 ns)"
    assert "Tesla T4" in str(counts.on("A100"))


def test_a_dot_is_bound_by_the_measured_product_of_its_type(own):
    x, y = torch.empty(64, 64, dtype=torch.float16), torch.empty(64, 64)
    args = (
        cost(kernels.matmul_kernel, (1, 1), x, x, y, 64, BLOCK=64),
        cost(kernels.matmul_kernel, (1, 1), y, y, y, 64, BLOCK=64),
    )
    halves, whole = (
        {roof.name: roof.us for roof in counts.roofs_on(counts.own)} for counts in args
    )
    assert halves["tensor cores"] == pytest.approx(2 * 64**3 / 24e12 * 1e6)
    assert set(whole) == {"memory", "L2 cache"}  # no product in tf32 was measured


def test_a_gpu_without_peak_figures_goes_by_what_was_measured(data, monkeypatch):
    name = "NVIDIA GeForce RTX 3060"
    monkeypatch.setattr(cost_module, "MODE", dataclasses.replace(course.MODE, name="GPU"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: name)
    with pytest.raises(
        CourseError, match=f"no peak figures for '{name}'.*or run `course doctor --measure` once"
    ):
        counted()
    (data / "gpu.json").write_text(
        dataclasses.replace(T4, machine=dataclasses.replace(T4.machine, gpu=name)).to_json()
    )
    counts = counted()
    assert (counts.gpu.name, counts.gpu.target) == (
        name,
        "sm_90",
    )  # the target is the driver's word, which is not asked here
    assert str(counts).count("at least") == 1
    assert "RTX 3060" in draw.roofline(counts).alt


def test_another_gpu_than_the_one_measured_is_not_taken_for_it(own, monkeypatch):
    monkeypatch.setattr(own_gpu_module, "MODE", dataclasses.replace(course.MODE, name="GPU"))
    for name, measured in (("Tesla T4", True), ("NVIDIA L4", False)):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda name=name: name)
        assert bool(own_gpu()) == measured


@pytest.mark.parametrize(
    "change",
    [
        ("0.24", "0"),
        ("0.24", '"fast"'),
        ("24.0", "NaN"),
        ("24.0", "null"),
        ('"memory_tb_s"', '"memory"'),
        ("{", "", 1),
    ],
)
def test_a_damaged_file_is_a_sentence(data, change):
    (data / "gpu.json").write_text(T4.to_json().replace(*change))
    with pytest.raises(
        CourseError,
        match=r"gpu.json is damaged \(.+\): run `course doctor --measure` again, or delete",
    ):
        own_gpu()


def test_pictures_show_it_beside_the_recorded_one(own):
    assert (
        "Dotted: copy roof measured on Tesla T4: 0.24 TB/s."
        in draw.speeds(recorded("vector_add")).alt
    )
    assert (
        "Dotted: torch.matmul in float16 measured on Tesla T4: 24 TFLOP/s."
        in draw.speeds(recorded("matmul")).alt
    )
    roofline = draw.roofline(counted()).alt
    assert (
        "Dashed, measured on Tesla T4: memory 0.24 TB/s, tensor cores, fp16: 24 TFLOP/s."
        in roofline
    )
    beside = (
        "For comparison, Tesla T4, measured on 2026-05-04: memory 0.24 TB/s, "
        "float16 matrix product 24 TFLOP/s."
    )
    assert draw.machine().alt.endswith(beside)
    of_the_t4 = draw.machine(T4).alt
    assert "Tesla T4" not in of_the_t4.partition("For comparison, ")[2]
    assert f"NVIDIA H200, recorded on {H200.machine.date}" in of_the_t4


@pytest.mark.parametrize(
    "picture",
    [lambda: draw.speeds(recorded("vector_add")), lambda: draw.roofline(counted()), draw.machine],
)
def test_a_picture_is_another_one_once_a_gpu_was_measured(data, picture):
    before = picture()
    (data / "gpu.json").write_text(T4.to_json())
    assert picture().png != before.png


def test_an_h200_is_not_compared_with_itself(data):
    (data / "gpu.json").write_text(H200.to_json())
    assert "Dotted" not in draw.speeds(recorded("vector_add")).alt
    assert "comparison" not in draw.machine().alt
    counts = counted()
    assert gpu_of("H200").device_names == (counts.own.name,)
    assert (
        "measured on NVIDIA H200: memory" in draw.roofline(counts).alt
    )  # what it does beside what its maker says


def test_notebooks_are_built_without_the_reader_s_own_gpu(own, tmp_path):
    cell = "from course.gpus.own_gpu import own_gpu\nprint(own_gpu())"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    notebooks.run(notebook, tmp_path)
    assert notebook.cells[0].outputs[0].text == "None\n"


def test_without_a_gpu_there_is_nothing_to_measure(data):
    ended = subprocess.run(
        [sys.executable, "-m", "course", "doctor", "--measure"],
        capture_output=True, text=True, timeout=60, env={**os.environ, "COURSE_MODE": "cpu"},
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (1, "")
    nothing = "There is nothing to measure, since this is CPU mode: COURSE_MODE=cpu asks for it."
    assert ended.stderr == f"course: {nothing}\n"
    assert not own_file().exists()


def with_gpu(monkeypatch, measure):
    monkeypatch.setattr(own_gpu_module, "MODE", dataclasses.replace(course.MODE, name="GPU"))
    monkeypatch.setattr(own_gpu_module, "measure_gpu", measure)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: T4.machine.gpu)


def test_measured_facts_are_kept_in_one_file(data, monkeypatch):
    with_gpu(monkeypatch, lambda: T4)
    assert own_gpu_module.measure_own_gpu() == T4
    assert own_gpu().memory == T4.memory_tb_s
    assert [path.name for path in data.iterdir()] == ["gpu.json"]


def test_facts_that_cannot_be_kept_are_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "file"))
    with_gpu(monkeypatch, lambda: T4)
    with pytest.raises(
        CourseError, match=r"gpu.json could not be written \(.+\): nothing was changed"
    ):
        own_gpu_module.measure_own_gpu()


def test_a_gpu_whose_memory_is_taken_is_a_sentence(data, monkeypatch):
    def measure():
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**28, 2**34))
    with_gpu(monkeypatch, measure)
    with pytest.raises(
        CourseError,
        match=r"Only 0.2 GiB of this GPU's memory are free, too little .* `nvidia-smi` shows",
    ):
        own_gpu_module.measure_own_gpu()


def test_the_table_of_limits_has_every_architecture_and_what_a_small_one_lacks():
    table = [line.split() for line in str(gpu_limits()).split("\n")[2:]]
    architectures = "sm_75 sm_80 sm_86 sm_89 sm_90 sm_90 sm_100 sm_120"
    assert [row[0] for row in table] == architectures.split()
    rows = {row[1]: row for row in table}
    t4 = "16 GB 0.32 TB/s 64 KiB none fp32 fused multiply-adds no"
    assert " ".join(rows["T4"][2:]) == t4
    assert rows["H200"][2:] == ["141", "GB", "4.80", "TB/s", "227", "KiB", "TMA", "wgmma", "yes"]
