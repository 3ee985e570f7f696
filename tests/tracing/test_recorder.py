"""launches: what a program launches is recorded, given to the tools, and repeated by a file."""

import subprocess
import sys

import pytest
import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

import course
from course import configs, cost, explore, launches, lower, replay, simulate
from course.errors import CourseError
from tests.support.processes import run


@triton.autotune(
    [
        triton.Config({"SIZE": 64}, num_warps=2),
        triton.Config({"SIZE": 128}, num_warps=8),
        triton.Config({"SIZE": 96}),
    ],
    key=["n"],
)
@triton.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["SIZE"] == 0})
@triton.jit
def double_kernel(x_ptr, out_ptr, n, SIZE: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    mask = None if EVEN else i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask) * 2, mask=mask)


@triton.jit
def place_kernel(x_ptr, places_ptr, pair, scale, out_ptr, SIZE: tl.constexpr):
    places = tl.load(places_ptr + tl.arange(0, SIZE))
    tl.store(out_ptr + pair[0] * tl.arange(0, SIZE), tl.load(x_ptr + places) * scale + pair[1])


@triton.jit
def joined_kernel(x_ptr, n, FLAG: tl.constexpr):
    i = tl.arange(0, 8)
    inside = i >= 0 and i < n
    if FLAG and n > 0:
        tl.store(x_ptr + i, 1.0, mask=inside)


@gluon.jit
def count_kernel(x_ptr):
    i = gl.program_id(0) * 32 + gl.arange(0, 32, gl.BlockedLayout([1], [32], [1], [0]))
    gl.store(x_ptr + i, i.to(gl.float32))


def double_in_place(x):
    n = x.numel()
    double_kernel[lambda chosen: (triton.cdiv(n, chosen["SIZE"]),)](x, x, n)
    return x


@pytest.fixture(scope="module")
def tuned():
    """A launch of a tuned kernel, in place, that was recorded and not run."""
    with launches(run=False) as seen:
        double_in_place(torch.ones(200))
    return seen[0]


@pytest.mark.skipif(course.MODE.gpu, reason="which configuration is faster is not known")
def test_a_tuned_launch_is_recorded_with_its_tensors_as_they_were_before():
    x = torch.ones(200)
    with launches() as seen:
        double_in_place(x)
        double_in_place(x)
    assert x[0] == 4  # it did run
    assert [each.args[0][0].item() for each in seen] == [1, 2]
    assert seen[0].grid == (4,) and seen[0].kwargs["config"].kwargs == {"SIZE": 64}
    assert seen[0].args[0] is not x
    assert seen[0].args[0].data_ptr() == seen[0].args[1].data_ptr()  # in place, as it was
    x[:] = 0
    assert seen[1].args[0].sum() == 400
    row = "double_kernel  4     float32[200], float32[200], 200, config=(SIZE=64, num_warps=2)"
    assert str(seen) == f"   kernel         grid  arguments\n0  {row}\n1  {row}"


def test_recording_alone_runs_nothing_and_takes_what_cannot_run_here():
    x = torch.ones(64)
    with launches(run=False) as seen:
        double_in_place(x)
        count_kernel[(2,)](x, num_warps=1)
    assert x.sum() == 64
    assert [(each.name, tuple(each.grid)) for each in seen] == [
        ("double_kernel", (1,)), ("count_kernel", (2,)),
    ]  # fmt: skip
    assert lower(*seen[1], target="sm_90").metadata["options"]["num_warps"] == 1
    simulate(*seen[1])
    assert seen[1].args[0].tolist() == [*range(64)]


def test_a_launch_that_fails_is_recorded_and_nothing_after_the_with():
    x = torch.ones(8)
    with launches() as seen, pytest.raises(Exception, match="on purpose"):
        place_kernel[lambda _: on_purpose()](x, x, (1, 1), 2.0, x, SIZE=8)
    assert len(seen) == 0  # its grid was never known
    assert str(seen) == "No launch was recorded."
    place_kernel[(1,)](x, x.int(), (1, 1.0), 2.0, x, SIZE=8)
    assert len(seen) == 0


def on_purpose():
    raise ValueError("on purpose")


def test_no_more_launches_are_kept_than_asked_for():
    x = torch.ones(8)
    with launches(run=False, most=1) as seen:
        for _ in range(3):
            double_in_place(x)
    assert len(seen) == 1 and str(seen).endswith("2 more were not kept.")


def test_the_tools_take_a_recorded_launch_with_its_arguments_by_name(tuned):
    counted = cost(*tuned)
    assert (counted.bytes_loaded, counted.resources.num_warps) == (800, 2)
    assert replay(*tuned).recording.grid == (4, 1, 1)
    lowered = lower(*tuned, target="sm_80")
    assert (lowered.metadata["options"]["num_warps"], lowered.target.name) == (2, "sm_80")
    assert explore(*tuned, target="sm_80").choices["num_warps"][0] == 2


def test_another_configuration_takes_its_own_grid(tuned):
    counted = cost(*tuned, config=1)
    assert (counted.grid, counted.resources.num_warps) == ((2, 1, 1), 8)
    assert lower(*tuned, config=triton.Config({"SIZE": 16}, num_warps=1), target="sm_90").ttgir


def test_all_configurations_stand_in_a_table(tuned):
    table = configs(*tuned, target="sm_90")
    assert [each.resources and each.resources.num_warps for each in table] == [2, 8, None]
    assert all(each.resources.registers > 0 for each in table[:2])
    lines = str(table).split("\n")
    assert lines[0].split() == (
        ["config", "values", "stages", "registers", "bytes", "spilled", "shared", "bytes"]
    )
    assert lines[2].split()[:4] == ["1", "SIZE=128,", "num_warps=8", "3"]
    assert "SIZE is 96, and a range must be a power of two" in lines[3]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, r"@triton.autotune chooses SIZE: give config=0 for .*\(SIZE=64, num_warps=2\) of 3"),
        ({"config": 3}, "config is 3: give the number of a configuration, 0 to 2, or"),
        ({"config": "fast"}, "config is a str: give the number"),
    ],
)
def test_a_configuration_that_is_open_or_none_is_told_what_to_give(options, says):
    x = torch.ones(200)
    with pytest.raises(CourseError, match=says):
        cost(double_kernel, (4,), x, x, 200, **options)
    with pytest.raises(CourseError, match=says):
        lower(double_kernel, x, x, 200, **options)


def test_config_is_refused_where_nothing_is_tuned():
    x = torch.ones(8)
    for refused in (cost, configs):
        with pytest.raises(CourseError, match=r"place_kernel is not under @triton\.autotune"):
            refused(place_kernel, (1,), x, config=0)


def repeated(path):
    """What a file prints, run by itself."""
    environ = {"PATH": "/usr/bin:/bin", "TRITON_INTERPRET": "1", "HOME": str(path.parent)}
    done = subprocess.run(
        [sys.executable, path.name], cwd=path.parent, env=environ, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_file_of_somebody_else_is_not_written_over(tmp_path):
    with launches(run=False) as seen:
        place_kernel[(1,)](
            torch.zeros(16), torch.zeros(16, dtype=torch.int16), (1, 0.5), 3.0, torch.zeros(16),
            SIZE=8,
        )  # fmt: skip
    mine = tmp_path / "mine.py"
    mine.write_text("# my work\n")
    with pytest.raises(CourseError, match="repeats no launch: give another name"):
        seen[0].to_file(mine)
    assert mine.read_text() == "# my work\n"
    again = seen[0].to_file(tmp_path / "again.py", seed=0)
    assert seen[0].to_file(again, seed=1) == again


def test_a_file_repeats_a_launch_by_itself(tmp_path):
    """A strided view, numbers that are places, a tuple: the places stay within x when made anew."""
    x, places = torch.arange(40.0)[4:36:2], torch.arange(16, dtype=torch.int16).flip(0).repeat(5)
    out = torch.zeros(16)
    with launches(run=False) as seen:
        place_kernel[(1,)](x, places, (1, 0.5), 3.0, out, SIZE=8, num_warps=2)
    alone = seen[0].to_file(tmp_path / "saved.py")
    assert repeated(alone).splitlines() == [
        "tensor[0]: torch.float32, (16,), sum 304",
        "tensor[1]: torch.int16, (80,), sum 600",
        # x has a stride of 2, and the kernel knows of none
        f"tensor[2]: torch.float32, (16,), sum {3 * sum(range(4 + 8, 4 + 16)) + 4:.9g}",
    ]
    anew = seen[0].to_file(tmp_path / "anew.py", seed=1)
    assert "torch.randint(0, 16, (80,)).to(torch.int16)" in anew.read_text()
    assert ".as_strided((16,), (2,), 4)" in anew.read_text()
    assert len(repeated(anew).splitlines()) == 3
    assert not (tmp_path / "anew.pt").exists()


def test_a_file_that_triton_would_interpret_wrongly_says_that_it_needs_a_gpu(tmp_path):
    """By itself the interpreter takes `a and b` of blocks as b: masks would let lanes through."""
    with launches(run=False) as seen:
        joined_kernel[(1,)](torch.zeros(8), 4, FLAG=True)
    path = seen[0].to_file(tmp_path / "joined.py", seed=0)
    environ = {"TRITON_INTERPRET": "1", "HOME": str(tmp_path)}
    done = run(sys.executable, path.name, cwd=tmp_path, env=environ)
    assert done.returncode == 1
    assert done.stderr.startswith("Run this with a GPU: the kernel joins blocks by `and`")


def test_a_tuned_launchs_file_has_its_choices_and_no_tuner(tuned, tmp_path):
    text = tuned.to_file(tmp_path / "tuned.py", seed=0).read_text()
    assert "@triton.jit\ndef double_kernel" in text and "autotune" not in text
    assert "SIZE=64" in text and "EVEN=False" in text
    assert text.count("torch.randn(200)") == 1  # in place


def test_values_that_are_not_there_cannot_be_saved(tmp_path):
    x = torch.empty(8, device="meta")
    with launches(run=False) as seen:
        place_kernel[(1,)](x, x, (1, 1), 2.0, x, SIZE=8)
    with pytest.raises(CourseError, match="'meta' hold no values: give a seed"):
        seen[0].to_file(tmp_path / "meta.py")
