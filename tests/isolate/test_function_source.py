"""What goes along into another process, and that it is the same there."""

import linecache
import math
import types

import msgspec
import pytest
import torch
import triton
import triton.language as tl

import course
from course import MODE, cost, lower, replay
from course.errors import CourseError
from course.isolate.function_source import Source, source_of

CELL = """

@triton.jit
def helper(x):
    return x * SCALE + 3


@triton.jit
def kernel(x_ptr, out_ptr, KIND: tl.constexpr = DTYPE):
    tl.store(out_ptr, helper(tl.load(x_ptr)).to(KIND))


def launch(x):
    out = OFFSET[1] * torch.ones_like(x)
    again[(1,)](x, out)
    return out


@triton.constexpr_function
def twice(n):
    return 2 * n


@triton.jit
def fill_kernel(out_ptr):
    tl.store(out_ptr + tl.arange(0, twice(2)), 1.0)
"""


@pytest.fixture
def cell():
    """A notebook's cell, after it ran: its file is only in linecache."""
    names = {
        "__name__": "__main__", "torch": torch, "triton": triton, "tl": tl,
        "SCALE": tl.constexpr(2.0), "DTYPE": tl.float32,
        "OFFSET": (1, 3), "DEVICE": course.DEVICE,
    }  # fmt: skip
    file = "/tmp/ipykernel_4711/123.py"
    linecache.cache[file] = (len(CELL), None, CELL.splitlines(keepends=True), file)
    exec(compile(CELL, file, "exec"), names)
    names["again"] = names["kernel"]
    return types.SimpleNamespace(**names)


def there_and_back(function):
    return msgspec.msgpack.decode(msgspec.msgpack.encode(source_of(function)), type=Source)


@pytest.mark.gpu_too
def test_what_is_used_goes_along_and_gives_the_same(cell):
    launch = there_and_back(cell.launch).load()
    assert launch(torch.tensor([5.0], device=course.DEVICE)).item() == 13.0


def test_a_function_that_a_kernel_calls_while_it_is_compiled_goes_along(cell):
    counted = cost(cell.fill_kernel, (1,), torch.zeros(4))
    assert counted.distinct_stored == 4 * 4
    assert counted.resources is not None  # it was compiled, too


def test_the_function_comes_last_and_what_it_uses_before(cell):
    in_order = [each.name for each in source_of(cell.launch).definitions]
    assert in_order == ["helper", "again", "launch"]


def test_lines_keep_their_numbers_and_a_cell_its_name(cell):
    source = there_and_back(cell.kernel)
    loaded = source.load()
    function = getattr(loaded, "fn", loaded)
    assert (source.definitions[-1].line, source.definitions[-1].file) == (8, "<cell of kernel>")
    assert function.__code__.co_firstlineno == 8
    assert (
        linecache.getline("<cell of kernel>", 10).strip()
        == "tl.store(out_ptr, helper(tl.load(x_ptr)).to(KIND))"
    )


def test_a_function_of_another_cell_is_told_from_that_of_its_own(cell):
    cells = {}
    for number, text in enumerate(
        ("def earlier(x):\n    return x + 1\n", "def beside(x):\n    return x\n\n\n"
         "def later(x):\n    return earlier(x) + beside(x)\n")
    ):  # fmt: skip
        file = f"/tmp/ipykernel_7/{number}.py"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), cells)
    places = {each.name: each.place for each in source_of(cells["later"]).definitions}
    assert places == {
        "earlier": "the cell of earlier", "beside": "your cell", "later": "your cell",
    }  # fmt: skip


def uses(**names):
    """A function of a script whose globals are these."""
    text = "def function():\n    return " + ", ".join(names) + "\n"
    file = f"<test {sorted(names)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names["__name__"] = "__main__"
    exec(compile(text, file, "exec"), names)
    return names["function"]


def test_constants_are_the_same_there():
    values = {
        "A": math.inf,
        "B": -math.inf,
        "C": 1e-300,
        "D": (1, [True, None]),
        "E": "x'\"",
        "F": torch.bfloat16,
        "G": tl.float16,
    }
    assert there_and_back(uses(**values)).load()() == tuple(values.values())
    assert math.isnan(there_and_back(uses(A=math.nan)).load()())


def test_two_functions_of_one_name_are_kept_apart():
    first, second = uses(A=1), uses(B=2)
    assert there_and_back(uses(first=first, second=second)).load()()[0]() == 1
    assert there_and_back(uses(first=first, second=second)).load()()[1]() == 2


def test_a_list_that_holds_itself_is_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(CourseError, match="A is a list"):
        source_of(uses(A=loop))


def test_the_device_is_the_other_processs_own():
    assert "from course import DEVICE" in source_of(uses(DEVICE=course.DEVICE)).imports


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (torch.zeros(2), "A is a Tensor, which cannot go along"),
        ([torch.zeros(2)], "A is a list, which cannot go along"),
        (lambda: 1, "A is a lambda: give it a name"),
        (object(), "A is an object"),
        (type("Ops", (), {"__module__": "__main__"}), "A is a class, .*: move it to a module"),
    ],
)
def test_what_cannot_go_along_is_named(value, says):
    if getattr(value, "__module__", None) == __name__:
        value.__module__ = "__main__"
    with pytest.raises(CourseError, match=says):
        source_of(uses(A=value))


def build():
    import triton
    import triton.language as tl

    configs = [triton.Config({"SIZE": 16}, num_warps=2), triton.Config({"SIZE": 32}, num_warps=8)]

    @triton.jit
    def add_one(x):
        return x + 1

    @triton.autotune(configs=configs, key=[])
    @triton.jit(do_not_specialize=["n"])
    def tuned(x_ptr, n, SIZE: tl.constexpr):
        i = tl.arange(0, SIZE)
        tl.store(x_ptr + i, add_one(tl.load(x_ptr + i, mask=i < n)), mask=i < n)

    def plain(x_ptr, SIZE: tl.constexpr):
        tl.store(x_ptr + tl.arange(0, SIZE), 1.0)

    return tuned, triton.jit(plain)


def test_kernels_need_no_names_of_their_decorators(monkeypatch):
    """The function around them imports Triton, and holds what they are tuned over."""
    tuned, by_call = build()
    monkeypatch.delitem(globals(), "triton")
    monkeypatch.delitem(globals(), "tl")
    lowered = lower(tuned.fn, "*fp32", "i32", 64, num_warps=8, target="sm_90")
    assert "tt.divisibility" not in lowered.ttir.split("%n: i32")[1].split(")")[0]
    assert "64xf32" in lower(by_call, "*fp32", 64, target="sm_90").ttir
    assert cost(tuned, (1,), torch.ones(20), 20, SIZE=32).bytes_loaded == 20 * 4


@pytest.mark.skipif(MODE.gpu, reason="needs CPU mode: the compiler refuses it at the decorator")
def test_a_name_in_place_of_a_list_of_names_is_refused():
    def plain(x_ptr, n):
        tl.store(x_ptr, n)

    kernel = triton.jit(do_not_specialize="n")(plain)
    with pytest.raises(CourseError, match=r"takes a list .*: write do_not_specialize=\['n'\]"):
        lower(kernel, "*fp32", "i32", target="sm_90")


def test_a_files_other_functions_are_still_found(tmp_path):
    """Of two functions in one file the one may go along as text and the other be imported."""
    path = tmp_path / "half_imported.py"
    path.write_text("def first():\n    return 1\n\n\ndef second():\n    return 2\n")
    names = {"__name__": "__main__"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    there_and_back(names["first"]).load()
    assert linecache.getline(str(path), 6) == "    return 2\n"


def test_one_name_of_two_things_is_refused():
    """A helper from elsewhere brings names of its own."""
    helper = uses(SCALE=1000.0)
    with pytest.raises(
        CourseError, match="SCALE means one thing in one module and another in the next"
    ):
        source_of(uses(SCALE=2.0, helper=helper))
    assert there_and_back(uses(SCALE=1000.0, helper=helper)).load()()[0] == 1000.0


def test_a_function_that_its_file_no_longer_has_is_refused(tmp_path):
    path = tmp_path / "changed.py"
    path.write_text("def first():\n    return 1\n")
    names = {"__name__": "__main__"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    path.write_text("def other():\n    return 2\n")
    with pytest.raises(
        CourseError, match="first is no longer what its file has there: start a new session"
    ):
        source_of(names["first"])


def made_inside():
    import triton.language as language

    @triton.jit
    def double(x):
        return x + x

    @triton.jit
    def inside(x_ptr):
        language.store(x_ptr, double(language.load(x_ptr)))

    size, number, tensor = triton.language.constexpr(3), 3, torch.ones(3)

    @triton.jit
    def sized(x_ptr):
        language.store(x_ptr, double(language.load(x_ptr)) + size)

    @triton.jit
    def counted(x_ptr):
        language.store(x_ptr, number)

    @triton.jit
    def live(x_ptr):
        language.store(x_ptr, tensor)

    return inside, sized, counted, live


def test_modules_kernels_and_constants_of_the_function_around_a_kernel_go_along():
    inside, sized, counted, live = made_inside()
    assert "tt.store" in lower(inside, "*fp32", target="sm_90").ttir
    assert "3.0" in lower(sized, "*fp32", target="sm_90").ttir
    x = torch.ones(1)
    assert replay(sized, (1,), x).recording.failure is None
    with pytest.raises(
        CourseError, match=r"access global variable number .*\nLine \d+ of .*number"
    ):
        lower(counted, "*fp32", target="sm_90")
    with pytest.raises(
        CourseError, match=r"live uses tensor from the function around it, .*: define it outside"
    ):
        lower(live, "*fp32", target="sm_90")
