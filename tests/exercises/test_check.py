"""check: what a learner gets for answers of every form, in a session and in a script."""

import contextlib
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from functools import partial

import msgspec
import psutil
import pytest
import torch
import triton
import triton.language as tl

from course import MODE, check, hint
from course.errors import CourseError
from course.exercises import learner
from course.exercises.judges.worker import Tried, compile_answer, run_answer
from course.exercises.registry import find
from course.exercises.result import Judged
from course.isolate.ended import Ended
from course.isolate.function_source import source_of
from course.isolate.pool import stop_workers
from course.verifying.result import CaseOutcome
from kernels.bias_gelu import bias_gelu
from tests.support.processes import computed_s, python_path, run

pytestmark = pytest.mark.gpu_too

cpu_mode = pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: on a GPU more can be told")


@triton.jit
def right_kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 8)
    mask = offsets < n
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def far_kernel(x_ptr, out_ptr, n):
    tl.store(out_ptr, tl.load(x_ptr + 1_000_000_000_000))


@triton.jit
def other_kernel(x_ptr, n):
    pass


def hanging(x, a, b):
    while True:
        pass


def greedy(x, a, b):
    return torch.ones(30 * 2**30 // 4) + x.sum()


def crashing(x, a, b):
    import ctypes

    ctypes.string_at(0)


def leaving(x, a, b):
    sys.exit(3)


def leaving_well(x, a, b):
    sys.exit()


def waiting(x, a, b):
    open(f"{os.environ['COURSE_DATA']}/pid-{os.getpid()}", "w").close()
    while True:
        pass


def held_up(x, a, b):
    if "HELD_UP" not in os.environ:
        os.environ["HELD_UP"] = "once"
        time.sleep(4)
    out = torch.empty_like(x)
    line_kernel[(triton.cdiv(x.numel(), 1024),)](x.contiguous(), out, a, b, x.numel())
    return out


def growing(x, a, b):
    taken = [bytearray(b"x") * 2**26 for _ in range(12)]
    return x + len(taken)


def killing(x, a, b):
    os.kill(os.getppid(), 9)


def forking(x, a, b):
    os.fork()
    return asking(x, a, b)


def forging(x, a, b):
    from course.isolate.messages import Reply, Returned

    value = msgspec.Raw(msgspec.msgpack.encode({"judged": ["right", "in 8 cases"]}))
    outcome = msgspec.msgpack.encode(Returned(value))
    reply = Reply(Ended("finished", 0, "", "", 0.0), outcome)
    answer = msgspec.msgpack.encode(reply)
    for fd in range(3, 100):
        with contextlib.suppress(OSError):
            os.write(fd, len(answer).to_bytes(8, "big") + answer)
            os.write(fd, outcome)
    return x


def patching(x, a, b):
    msgspec.msgpack.encode = lambda *_: b"\x90"  # an empty list
    return x


def shouting(x, a, b):
    raise ValueError("\x1b[2J" + "y" * 10**5)


async def another_form(x, a, b):
    pass


def looking(x, a, b):
    out = torch.zeros_like(x)
    line_kernel[(triton.cdiv(x.numel(), 1024),)](x.contiguous(), out, a, b, x.numel())
    if out[0].item() == 0:
        raise ValueError("nothing there")
    return out


def on_a_gpu_or_interpreted(x):
    assert x.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"


def asking(x, a, b):
    on_a_gpu_or_interpreted(x)
    out = torch.empty_like(x)
    line_kernel[(triton.cdiv(x.numel(), 1024),)](x.contiguous(), out, a, b, x.numel())
    return out


def asking_too_much(x, a, b):
    on_a_gpu_or_interpreted(x)
    out, x = torch.empty_like(x), x.contiguous()
    line_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, a, b, x.numel(), num_warps=64)
    return out


def hiding(x, a, b):
    on_a_gpu_or_interpreted(x)
    out = torch.empty_like(x)
    uncompilable_kernel[(triton.cdiv(x.numel(), 1024),)](x.contiguous(), out, a, b, x.numel())
    return out


def making(x, a, b):
    @triton.jit
    def made_here(x_ptr, out_ptr, a, b, n):
        line_kernel(x_ptr, out_ptr, a, b, n)

    on_a_gpu_or_interpreted(x)
    out = torch.empty_like(x)
    made_here[(triton.cdiv(x.numel(), 1024),)](x.contiguous(), out, a, b, x.numel())
    return out


def borrowing(x, bias):
    return bias_gelu(x, bias)


@triton.jit
def uncompilable_kernel(x_ptr, out_ptr, a, b, n):
    offsets = tl.program_id(axis=0) * 1024 + tl.arange(0, 1024)
    offsets.handle.data.sum()
    mask = offsets < n
    tl.store(out_ptr + offsets, a * tl.load(x_ptr + offsets, mask=mask) + b, mask=mask)


@triton.jit
def line_kernel(x_ptr, out_ptr, a, b, n):
    offsets = tl.program_id(axis=0) * 1024 + tl.arange(0, 1024)
    mask = offsets < n
    tl.store(out_ptr + offsets, a * tl.load(x_ptr + offsets, mask=mask) + b, mask=mask)


def noisy(x, a, b):
    print("I was here")
    return x


def racing(x, a, b):
    out = torch.empty_like(x)
    racing_kernel[(2,)](out)
    return out


@triton.jit
def racing_kernel(out_ptr):
    tl.store(out_ptr + tl.arange(0, 1024), tl.program_id(axis=0).to(tl.float32))


def test_a_right_answer_says_what_was_tried():
    where = "on this GPU" if MODE.gpu else "and it compiles for an H100 (sm_90)"
    said = f"if-becomes-mask: right.\n    Correct in all 8 cases, {where}."
    assert str(check("if-becomes-mask", right_kernel)) == said


def test_a_warm_check_takes_a_fraction_of_the_first():
    stop_workers()
    start = computed_s()
    check("if-becomes-mask", right_kernel)
    cold = computed_s()
    check("if-becomes-mask", right_kernel)
    assert computed_s() - cold < (cold - start) / 8  # 0.3 s of 5 s


A_KERNEL = "It must be a kernel, a function under @triton.jit; this is "
A_LAUNCHER = "It must be a launcher, a plain function that launches a kernel and returns a tensor"


@pytest.mark.parametrize(
    ("exercise", "answer", "says"),
    [
        ("if-becomes-mask", right_kernel.fn, f"{A_KERNEL}a plain function."),
        ("if-becomes-mask", torch.zeros(3), f"{A_KERNEL}a Tensor"),
        (
            "if-becomes-mask",
            other_kernel,
            "takes (x_ptr, n), and the exercise gives it (x_ptr, out_ptr, n).",
        ),
        ("scale-and-shift", right_kernel, f"{A_LAUNCHER}; this is a kernel."),
        ("scale-and-shift", lambda x, a, b: x, "<lambda> is a lambda"),
        ("count-bytes", torch.zeros(1), "It must be a number, in MB; this is a Tensor."),
        ("count-bytes", "many", "It must be a number, in MB, as 12.5; this is 'many'."),
        ("count-bytes", True, "It must be a number, in MB; this is a bool."),
        ("last-program", 2, "It must be one of 'a', 'b', 'c', 'd'."),
        ("scale-and-shift", another_form, "is no plain `def`"),
        ("very-long-vector", 64, "It must be a text, in quotes; this is an int."),
    ],
)
def test_what_is_no_answer_gets_a_sentence_and_is_no_try(exercise, answer, says):
    checked = check(exercise, answer)
    assert checked.verdict == "no answer"
    assert says in str(checked)
    assert learner.tried() == {}


@pytest.mark.parametrize("answer", [None, ...])
def test_an_answer_that_is_not_there_is_to_do(answer, monkeypatch):
    monkeypatch.setattr("course.exercises.api._checked_to_do", set())
    assert str(check("count-bytes", answer)) == "count-bytes: to do."


def test_who_checks_a_stub_again_is_told_to_run_the_cell_above(monkeypatch):
    monkeypatch.setattr("course.exercises.api._checked_to_do", set())
    assert "Run the cell above again" not in str(check("count-bytes", None))
    assert "Changed it? Run the cell above again, then this one." in str(check("count-bytes", None))


@pytest.mark.parametrize(
    ("exercise", "answer", "verdict", "says"),
    [
        ("if-becomes-mask", far_kernel, "reads outside", "none of the kernel's arguments"),
        (
            "scale-and-shift",
            crashing,
            "crashed",
            "was killed by SIGSEGV. Your session is untouched.",
        ),
        ("scale-and-shift", leaving, "crashed", "It ended early: it left with exit code 3"),
        ("scale-and-shift", leaving_well, "crashed", "It ended early: it left with exit code 0"),
        ("scale-and-shift", killing, "crashed", "It ended early: "),
        ("scale-and-shift", forging, "wrong", "expected"),
        ("scale-and-shift", patching, "crashed", "What came back from its process is no verdict"),
        ("scale-and-shift", shouting, "wrong", "y" * 200 + " …"),
        ("scale-and-shift", forking, "wrong", "PermissionError: what is tried here may not fork"),
        ("scale-and-shift", noisy, "wrong", "It printed: I was here"),
        ("scale-and-shift", racing, "race", "wrote different values to out_ptr[0]"),
    ],
)
def test_an_answer_that_breaks_its_process_does_not_break_the_session(
    exercise, answer, verdict, says
):
    checked = check(exercise, answer)
    assert checked.verdict == verdict, checked
    assert says in str(checked)


@pytest.fixture
def may_compute(monkeypatch):
    """Sets for how many seconds answers may compute."""

    def may_compute(seconds):
        limited = partial(replace, timeout_s=seconds)
        monkeypatch.setattr("course.exercises.api.find", lambda number: limited(find(number)))

    return may_compute


def test_an_endless_answer_is_stopped_and_is_no_try_and_leaves_no_process(may_compute):
    may_compute(1)
    check("if-becomes-mask", right_kernel)  # the workers are there
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    assert str(check("scale-and-shift", hanging)) == (
        "scale-and-shift: stopped.\n    It was stopped after 1 s of computing: look for a loop "
        "without end or for very many programs, or check it again if this machine is busy."
    )
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before
    assert "scale-and-shift" not in learner.tried()


def test_an_answer_may_compute_for_ten_seconds():
    assert find("scale-and-shift").timeout_s == 10


def test_a_right_answer_is_right_however_long_it_takes_by_the_clock(may_compute):
    """As on a machine that does something else meanwhile."""
    may_compute(3)
    assert check("scale-and-shift", held_up).right


def test_of_an_answer_that_is_stopped_by_the_clock_nothing_is_said(monkeypatch):
    stopped = "after 60 s, in which it computed for 0.8 s"
    starved = Ended("out of time", -9, "", "", 60, stopped=stopped, starved=True)
    monkeypatch.setattr("course.exercises.judges.code._in_child", lambda *_: starved)
    checked = check("scale-and-shift", noisy)
    assert checked.verdict == "stopped"
    assert f"{stopped}, so nothing is known of your answer: check it again" in str(checked)
    assert learner.tried() == {}


def test_thirty_gigabytes_are_refused_or_stopped():
    checked = check("scale-and-shift", greedy)
    assert checked.verdict == "stopped"
    assert "look for a tensor that is larger than it must be" in str(checked)
    assert learner.tried() == {}


def test_an_answer_has_its_memory_once_and_not_in_each_child(monkeypatch):
    monkeypatch.setattr("course.exercises.judges.code.child_memory_bytes", lambda: 2**30)
    assert "It was stopped at 0.5 GiB of memory" in str(
        check("scale-and-shift", growing)
    )  # it takes 0.75


def test_an_interrupted_check_waits_for_neither_child(may_compute, tmp_path):
    may_compute(20)
    # In the background it may be ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    data = tmp_path / "data"
    data.mkdir()

    def interrupt():
        while len(list(data.glob("pid-*"))) < 2:
            time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        check("if-becomes-mask", right_kernel)  # the workers are there
        start = computed_s()
        with pytest.raises(KeyboardInterrupt):
            check("scale-and-shift", waiting)
        assert computed_s() - start < 10  # the other child would have computed for longer
    finally:
        signal.signal(signal.SIGINT, before)
    pids = [int(path.name.removeprefix("pid-")) for path in data.glob("pid-*")]
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_hints_come_one_after_the_other_and_then_all(capsys, monkeypatch):
    monkeypatch.setattr("course.exercises.api._shown_hints", {})
    for _ in range(3):
        hint("least-time")
    first, second, *again = capsys.readouterr().out.splitlines()
    assert first.startswith("least-time, hint 1 of 2: Three vectors")
    assert again == [first, second]


def test_a_hint_to_nothing_is_refused():
    with pytest.raises(CourseError, match=r"There is no exercise '77\.7'"):
        hint("77.7")
    with pytest.raises(CourseError, match="no exercise 'nope': its cell in a lesson names each"):
        hint("nope")


@cpu_mode
@pytest.mark.parametrize("answer", [looking, asking, making])
def test_what_a_launcher_keeps_from_the_compiler_is_compiled_as_the_interpreter_saw_it(answer):
    """It asks for a GPU, or looks at what its kernel has written."""
    said = (
        "scale-and-shift: right.\n    Correct in all 8 cases, and it compiles for an H100 (sm_90)."
    )
    assert str(check("scale-and-shift", answer)) == said


@pytest.mark.parametrize(
    ("answer", "says"),
    [(hiding, "offsets.handle.data.sum()"), (asking_too_much, "64 warps are 2,048 threads")],
)
def test_a_kernel_that_cannot_be_compiled_is_not_hidden_by_its_launcher(answer, says):
    checked = check("scale-and-shift", answer)
    assert checked.verdict == "does not compile"
    assert says in str(checked)


@cpu_mode
def test_an_answer_that_the_compiler_never_saw_is_left_to_the_gpu(monkeypatch):
    unseen = Tried(Judged("right"), untold="AssertionError: no GPU")
    right = Tried(Judged("right", "Correct in all 8 cases"))
    ended = {compile_answer: unseen, run_answer: right}
    monkeypatch.setattr(
        "course.exercises.judges.code._in_child",
        lambda function, *_: Ended("finished", 0, "", "", 1.0, value=ended[function]),
    )
    assert str(check("scale-and-shift", asking)) == (
        "scale-and-shift: left to the GPU.\n    Correct in all 8 cases.\n"
        "    Whether it compiles could not be told (AssertionError: no GPU): check it in GPU mode."
    )


@cpu_mode
def test_an_answer_of_which_no_case_could_be_judged_is_left_to_the_gpu(monkeypatch):
    left = CaseOutcome("8 float32", "float32", "left to the GPU", "it would take long")
    monkeypatch.setattr(
        "course.exercises.judges.worker._outcomes", lambda *_: ((), (left, left), None)
    )
    monkeypatch.setattr("course.exercises.judges.worker.refuse_forks", lambda: None)
    trial = run_answer.here("scale-and-shift", source_of(asking, kernels_as_text=True))
    assert trial.judged[:2] == (
        "left to the GPU", "Left to the GPU, since it would take long: 2 cases."
    )  # fmt: skip


def test_a_kernel_of_the_course_is_nobodys_answer():
    checked = check("bias-and-gelu", borrowing)
    assert checked.verdict == "wrong"
    assert "kernels/bias_gelu.py has the kernel that it launches: write your own." in str(checked)


SCRIPT = """
from course import check
import triton, triton.language as tl

@triton.jit
def set_kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 8)
    mask = {offsets} < n
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)

@triton.jit
def and_kernel(x_ptr, out_ptr, n):
    offsets = tl.arange(0, 8)
    mask = offsets < n and offsets > -1
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)

print(check("if-becomes-mask", set_kernel))
print(check("if-becomes-mask", and_kernel))
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """A script without a main guard that checks two kernels, when it has run."""
    folder = tmp_path_factory.mktemp("script")
    (folder / "mine.py").write_text(SCRIPT)
    environ = {**os.environ, "PYTHONPATH": python_path(), "COURSE_DATA": str(folder)}
    return run(sys.executable, "mine.py", env=environ, cwd=folder)


def test_a_line_that_does_not_compile_is_shown_with_its_number(script):
    shown = "if-becomes-mask: does not compile.\n    Line 8 of mine.py:  mask = {offsets} < n\n"
    assert script.stdout.startswith(shown)


@cpu_mode
def test_a_script_without_a_main_guard_may_check(script):
    assert "\nif-becomes-mask: right." in script.stdout
    assert script.stderr == ""
