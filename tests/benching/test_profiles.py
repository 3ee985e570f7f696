"""What profilers and checkers write, read and shown: their formats are held here by small texts."""

import pytest

from course.benching.profiles import (
    METRICS,
    SECTORS,
    TIME,
    KernelMetrics,
    Node,
    Report,
    Reports,
    StepProfile,
)
from course.errors import CourseError
from course.gpus.recorded import Machine
from tools.record import gpu_reports, nsight, sanitized, sanitizers, step_profile, wrong

MACHINE = Machine("A GPU", "1.2", "2.11.0+cu130", "3.9.0", "2026-01-02")
TABLE = """\
==PROF== Connected to process 1
"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","a_kernel","gpu__time_duration.sum","ns","1,234.50"
"0","a_kernel","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","88.1"
"1","b_kernel","gpu__time_duration.sum","ns","500"
"1","b_kernel","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","n/a"
"""


def test_nsights_table_is_read_launch_by_launch():
    first, second = nsight.read(TABLE)
    assert list(first.values()) == [1234.5, 88.1]
    assert list(second.values()) == [500, 0]


def test_metrics_are_shown_beside_each_other_with_their_units():
    values = dict.fromkeys([*METRICS, *SECTORS], 42.4) | {TIME: 321_000.0}
    metrics = KernelMetrics(
        machine=MACHINE, launches={"slow": values, "fast": values}, us={"slow": 320, "fast": 40},
        bytes=2**27,
    )  # fmt: skip
    rows = {row[:34].strip(): row[34:].split() for row in str(metrics).splitlines()[:-1]}
    assert rows[""] == ["slow", "fast"]
    assert rows["time, us"] == ["321", "321"] and rows["sectors loaded"] == ["42", "42"]
    assert rows["memory, % of its peak"] == ["42%", "42%"]
    assert rows["time without the profiler, us"] == ["320", "40"]
    assert rows["what must move in that time, TB/s"] == ["0.42", "3.36"]
    assert KernelMetrics.from_json(metrics.to_json()).launches == metrics.launches


def kernel(name, ns, count):
    return {"frame": {"name": name}, "metrics": {"time (ns)": ns, "count": count}, "children": []}


def scope(name, *children):
    return {"frame": {"name": name}, "metrics": {}, "children": list(children)}


TREE = [
    scope(
        "ROOT",
        kernel("warming_up", 5e6, 1),
        scope(
            "step",
            scope("forward", kernel("matmul_kernel", 2e6, 30), scope("nothing")),
            scope("update", kernel("void at::native::add<4, at::F<int>>(int, Array<2>)", 1e6, 10)),
        ),
    )
]


def test_protons_tree_becomes_times_and_launches_of_one_step():
    step = step_profile.step_of(TREE)
    assert (step.us, step.launches) == (300, 4)
    assert step.at("forward", "matmul_kernel").us == 200
    assert step.at("update").children[0].name == "add"
    with pytest.raises(KeyError, match="nothing"):
        step.at("forward", "nothing")


def test_a_profile_without_kernels_is_refused():
    with pytest.raises(CourseError, match="seen no kernel"):
        step_profile.step_of([scope("ROOT", scope("step", scope("forward")))])


def test_a_tree_is_shown_with_what_takes_longest_first():
    leaves = (Node("small", 25, 1), Node("large", 75, 3))
    profile = StepProfile(machine=MACHINE, steps={"as written": Node("step", 100, 4, leaves)})
    rows = profile.tree("as written").splitlines()
    assert rows[0] == "as written" and rows[1].split() == ["100", "us", "100%", "4", "x", "step"]
    assert [row.split()[-1] for row in rows] == ["written", "step", "large", "small"]
    assert StepProfile.from_json(profile.to_json()).steps == profile.steps


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("tiles_kernel", "tiles_kernel"),
        ("void at::native::(anonymous namespace)::f<at::A<1>, (B)2>(int, C*)", "f"),
        ("_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_", "elementwise_kernel"),
    ],
)
def test_kernels_are_named_without_types(name, shown):
    assert step_profile.short(name) == shown


def test_a_report_leaves_out_what_nobody_reads():
    text = "\n".join(["=========", *map(str, range(40))])
    lines = gpu_reports.shortened(text).splitlines()
    assert lines[0] == "0" and lines[-1] == "39" and "… (16 more lines)" in lines


def test_a_report_ends_where_pythons_own_traceback_begins():
    said = f"Invalid read\nat 0x7fc6ca80 in {gpu_reports.SCRIPT}:45"
    said = f"{said}\nTraceback (most recent call last):\n  File x"
    assert gpu_reports.shortened(said) == "Invalid read\nat 0x… in wrong.py:45"


def test_a_report_prints_as_a_shell_would_show_it():
    report = Report("python wrong.py", "it said so", "it finished")
    assert str(report) == "$ python wrong.py\nit said so\n(it finished)"
    reports = Reports(machine=MACHINE, reports={"wrong": report})
    assert Reports.from_json(reports.to_json()).reports == reports.reports


def test_every_case_runs_a_program_that_there_is():
    assert {case.program for case in gpu_reports.CASES.values()} == set(wrong.PROGRAMS)
    assert {case.program for case in sanitizers.CASES.values()} == set(sanitized.PROGRAMS)
