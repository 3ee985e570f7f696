"""Kernels that torch.compile writes: its launcher is watched, whenever it is imported.

Without a GPU nothing of it can be launched, so a stand-in takes the place of its launcher, with the
methods and fields of the real one.
"""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
import triton

from course import profile
from course.profiling.gpu_times import GpuKernel, Timed
from course.profiling.result import Profile
from course.profiling.seen import Seen
from course.triton_internals.launches_watched import COMPILED, launches_watched
from course.when_imported import when_imported

from . import program

ran = []


class CachingAutotuner:
    """What stands for the class of this name in PyTorch."""

    def __init__(self):
        config = triton.Config({"SIZE": 128}, num_warps=2, num_stages=1)
        self.fn, self.configs = program.scale_kernel.fn, [config]
        self.launchers = [SimpleNamespace(config=config)]
        self.triton_meta = {
            "signature": {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "factor": "fp32",
                          "SIZE": "constexpr"},
            "constants": {},
        }  # fmt: skip

    def _interpret_args_grid(self, args, config):
        return args, (-(-args[2] // config.kwargs["SIZE"]), 1, 1)

    def run(self, *args, stream, benchmark_run=False, **kwargs):
        ran.append(args)


@pytest.fixture
def module(monkeypatch):
    """The stand-in's module, not yet imported."""
    made = ModuleType(COMPILED)
    made.CachingAutotuner = type(
        "CachingAutotuner", (CachingAutotuner,), {"run": CachingAutotuner.run}
    )
    monkeypatch.delitem(sys.modules, COMPILED, raising=False)
    return made


def test_what_torch_compile_launches_is_recorded(module, monkeypatch):
    monkeypatch.setattr(triton.knobs.runtime, "interpret", False)
    monkeypatch.setitem(sys.modules, COMPILED, module)
    ran.clear()
    seen, x = Seen(False, None, lambda _: None), torch.ones(300)
    with launches_watched(seen, run=True):
        for _ in range(2):
            module.CachingAutotuner().run(x, x, 300, 2.0, stream=0)
        module.CachingAutotuner().run(x, x, 300, 2.0, stream=0, benchmark_run=True)
    module.CachingAutotuner().run(x, x, 300, 2.0, stream=0)
    assert len(ran) == 4
    (row,) = seen.rows.values()
    assert (row.name, row.launches, row.recorded.grid) == ("scale_kernel", 2, (3, 1, 1))
    given = row.recorded.kwargs
    assert (given["SIZE"], given["num_warps"], given["n"]) == (128, 2, 300)
    assert given["x_ptr"].shape == (300,) and given["x_ptr"].is_meta
    assert row.cost().distinct_loaded == 4 * 300


class SentKernel:
    """A kernel as another process sends it back: without its function."""

    fn, __name__, arg_names = None, "scale_kernel", program.scale_kernel.fn.arg_names


def test_a_kernel_that_another_process_compiled_is_loaded_again(module, monkeypatch):
    monkeypatch.setattr(triton.knobs.runtime, "interpret", False)
    monkeypatch.setitem(sys.modules, COMPILED, module)
    tuner, x = module.CachingAutotuner(), torch.ones(300)
    tuner.fn, tuner._reload_kernel = SentKernel(), module.CachingAutotuner
    seen = Seen(False, None, lambda _: None)
    with launches_watched(seen, run=True):
        tuner.run(x, x, 300, 2.0, stream=0)
    (row,) = seen.rows.values()
    assert row.recorded.grid == (3, 1, 1) and row.cost().distinct_loaded == 4 * 300


def test_a_kernel_without_a_source_has_a_row_and_its_time(module, monkeypatch):
    monkeypatch.setattr(triton.knobs.runtime, "interpret", False)
    monkeypatch.setitem(sys.modules, COMPILED, module)
    tuner, x = module.CachingAutotuner(), torch.ones(300)
    tuner.fn, tuner._reload_kernel = SentKernel(), None
    seen, p = Seen(False, None, lambda _: None), Profile()
    with launches_watched(seen, run=True):
        for _ in range(2):
            tuner.run(x, x, 300, 2.0, stream=0)
    ran = [GpuKernel("scale_kernel", 0, 1.5, 0, (3, 1, 1))] * 2
    p.take([*seen.rows.values()], Timed(ran))
    assert (p[0].name, p[0].launches, p[0].us, p.others) == ("scale_kernel", 2, 3.0, [])
    assert "is out of torch.compile's cache, without its source" in p[0].counted
    assert "scale_kernel" in str(p)


def test_a_launch_that_cannot_be_looked_at_is_counted(monkeypatch):
    monkeypatch.setattr("course.profiling.seen._kind_of", lambda value: 1 / 0)
    x = torch.ones(300)
    with profile() as p:
        y = program.scale(x, 2.0)
    assert torch.equal(y, x * 2)
    assert p.notes == ["1 launches could not be looked at: ZeroDivisionError: division by zero."]


def test_a_module_that_is_imported_later_is_found_then_and_not_after_the_end(tmp_path, monkeypatch):
    (tmp_path / "later_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    acted = []
    leave = when_imported("later_module", acted.append)
    import later_module

    assert [each.value for each in acted] == [1] and acted[0] is later_module
    leave()
    del sys.modules["later_module"]
    leave = when_imported("later_module", acted.append)
    leave()
    import later_module

    assert len(acted) == 1


def test_pytorchs_launcher_has_what_is_used_of_it():
    source = Path(torch.__file__).parent / "_inductor" / "runtime" / "triton_heuristics.py"
    text = source.read_text()
    for used in (
        "class CachingAutotuner",
        "def run(\n        self,\n        *args,\n        stream,",
        "def _interpret_args_grid(",
        "self.launchers",
        "self.triton_meta",
        "self.fn.fn is None",
        "self.fn = self._reload_kernel().fn",
        "benchmark_run=False",
    ):
        assert used in text, used
