"""link, build, load, and a launch as the driver is told it: every argument's bytes, each dispatch,
each error."""

import ctypes
import math
import os
import re
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import numpy as np
import pytest
import torch

import course
from course import aot
from course.aot import fake_driver
from course.aot.abi import SCALARS, converter
from course.aot.c import kernel as code
from course.aot.c.templates import BITS
from course.aot.c_compiler import compile_library
from course.aot.cubin import read_cubin
from course.aot.driver import Driver
from course.errors import CourseError
from course.gpus.limits import TARGETS
from course.isolate.commands import run_source
from tests.support import aot_kernels as kernels
from tests.support.aot_files import STRICT, cubin_in

# One process can use the fake driver or the real driver: in GPU mode tests/gpu/test_aot.py has it.
pytestmark = [
    pytest.mark.skipif(
        course.MODE.gpu, reason="needs CPU mode: the fake driver is tested in CPU mode"
    ),
    pytest.mark.compiler,
]

TYPES = "*fp64, i1, i8, i16, i32, i64, u8, u16, u32, u64, fp16, bf16, fp32, fp64"
ADD = ["*fp32:16, *fp32:16, *fp32:16, i32:16, 1024", "*fp32, *fp32, *fp32, i32, 1024"]
ONE = "*fp32, *fp32, *fp32, i32:1, 1024"
X16 = "*fp32:16, *fp32, *fp32, i32, 1024"


@pytest.fixture(autouse=True)
def _fake_driver_settings(monkeypatch):
    for name in ("LOG", "FAIL", "DEVICES", "CAPABILITIES", "LOAD_MS"):
        monkeypatch.delenv(f"COURSE_FAKE_DRIVER_{name}", raising=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("aot")


@pytest.fixture(scope="module")
def add(folder):
    """Vector adds: two blocks' sizes, of the first with four sets of hints."""
    variants = [*ADD, ONE, X16, ADD[1].replace("1024", "512"), aot.Variant(ADD[1], num_warps=8)]
    return aot.export(kernels.add_kernel, variants, "cdiv(n, BLOCK)", "add", folder / "add" / "add")


@pytest.fixture(scope="module")
def library(add, folder):
    return aot.build(aot.link(add, folder / "linked"))


@pytest.fixture
def loaded(library):
    """Loaded anew for each test: nothing of its kernels is on the device yet."""
    return aot.load(library, driver=fake_driver)


def launches(calls):
    return [call for call in calls if call.name == "cuLaunchKernel"]


def names(calls):
    return [call.name for call in calls]


X = torch.zeros(8192)
assert X.data_ptr() % 64 == 0


# Arguments


def test_every_type_arrives_as_the_bytes_that_the_kernel_reads(folder):
    made = aot.export(kernels.types_kernel, TYPES, "i32", "types", folder / "types")
    function = aot.load(aot.build(made), driver=fake_driver).types
    out = torch.zeros(1, dtype=torch.float64)
    unsigned = (255, 65535, 2**32 - 1, 2**63 - 1)
    rows = [
        (True, -128, -32768, -(2**31), -(2**63), *unsigned, 0.1, 0.1, 0.1, 0.1),
        (False, 127, 32767, 3, 2**63 - 1, 0, 0, 0, 0, -65504.0, 3e38, 1e-45, 1e308),
        (1, -1, -1, 1, -1, 1, 1, 1, 1, math.inf, -math.inf, 3, 5e-324),
    ]
    with fake_driver.recorded() as calls:
        for row in rows:
            if row[3] > 0:
                function(out, *row)
            else:
                with pytest.raises(CourseError, match="CUDA_ERROR_INVALID_VALUE"):
                    function(out, *row)  # a grid of -2**31
        function._driver.call(0, function._function, None, 0, 5, 0, 0, 1, *range(5), *[0.0] * 4)
    *calls, of_five = calls
    assert of_five.arguments[1] == b"\1"  # whatever C calls true
    for call, row in zip(launches(calls), rows[1:], strict=True):
        b, i8, i16, i32, i64, u8, u16, u32, u64, half, brain, single, double = row
        expected = [
            struct.pack("<Q", out.data_ptr()), struct.pack("<?", b),
            struct.pack("<b", i8), struct.pack("<h", i16),
            struct.pack("<i", i32), struct.pack("<q", i64),
            struct.pack("<B", u8), struct.pack("<H", u16),
            struct.pack("<I", u32), struct.pack("<Q", u64),
            np.float16(half).tobytes(),
            torch.tensor(brain, dtype=torch.bfloat16).view(torch.int16).numpy().tobytes(),
            struct.pack("<f", single), struct.pack("<d", double), bytes(8), bytes(8),
        ]  # fmt: skip
        assert call.arguments == tuple(expected)
        assert call.grid == (i32, 1, 1)


@pytest.fixture(scope="module")
def converters(tmp_path_factory):
    """The C that makes 16 bits of a float, over arrays."""
    folder = tmp_path_factory.mktemp("bits")
    loops = "".join(
        f"void all_{name}(const float *x, uint16_t *out, long n)\n"
        f"{{ while (n--) *out++ = {name}_bits(*x++); }}\n"
        for name in BITS
    )
    includes = "#include <stdint.h>\n#include <string.h>\n"
    (folder / "bits.c").write_text(includes + "\n".join(BITS.values()) + loops)
    compile_library([folder / "bits.c"], folder / "bits.so")
    return ctypes.CDLL(str(folder / "bits.so"))


@pytest.mark.parametrize(("name", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)])
def test_floats_are_rounded_to_16_bits_as_pytorch_rounds(converters, name, dtype):
    """Every 16-bit number, every tie between two neighbors, the float on either side of a tie, and
    a million others."""
    patterns = torch.arange(2**16, dtype=torch.int32).to(torch.int16)
    exact = patterns.view(dtype).float()
    finite = exact[torch.isfinite(exact)].sort().values
    largest = finite[-1:].double()
    beyond = largest + (largest - finite[-2:-1].double()) / 2  # from here on it is infinity
    ties = torch.cat([(finite[1:].double() + finite[:-1].double()) / 2, beyond, -beyond]).float()
    sides = [torch.nextafter(ties, torch.tensor(sign * math.inf)) for sign in (1, -1)]
    integers = np.random.default_rng(5).integers(-(2**31), 2**31, 10**6, dtype=np.int64)
    others = torch.from_numpy(integers.astype(np.int32))
    numbers = torch.cat([exact, ties, *sides, others.view(torch.float32)]).contiguous()
    found = np.zeros(len(numbers), dtype=np.uint16)
    source, out = ctypes.c_void_p(numbers.data_ptr()), ctypes.c_void_p(found.ctypes.data)
    converters[f"all_{name}"](source, out, ctypes.c_long(len(numbers)))
    found_numbers = torch.from_numpy(found.view(np.int16)).view(dtype)
    nan = torch.isnan(numbers)
    assert torch.equal(torch.isnan(found_numbers), nan)
    expected = numbers.to(dtype)[~nan]
    assert torch.equal(found_numbers[~nan].view(torch.int16), expected.view(torch.int16))
    if name == "fp16":
        with np.errstate(over="ignore"):
            of_numpy = numbers.numpy().astype(np.float16).view(np.uint16)
        assert np.array_equal(found[~nan.numpy()], of_numpy[~nan.numpy()])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((X, X, X), "add takes 4 arguments and was given 3: x_ptr, y_ptr, out_ptr, n."),
        (
            (X, X.to_sparse(), X, 1),
            "y_ptr is a tensor of layout torch.sparse_coo, which has no one",
        ),
        ((X, X.to_sparse(), X, 1), "no one address: give a dense one"),
        ((X, X, X, 2**31), "add: n is 2147483648, and i32 holds -2147483648 to 2147483647."),
        ((X, X, X, 1.0), "n is a float, and must be an int"),
        ((X, X, X, X), "n is a Tensor, and must be an int (i32)"),
        ((X, X.double(), X, 1), "y_ptr is a tensor of torch.float64, and must be of torch.float32"),
        ((X, 5, X, 1), "y_ptr is an int, and must be a tensor"),
        (
            (X, X, X.to("meta"), 1),
            "add: the tensors are on cpu, meta, and must be on one device of",
        ),
        ((X, X, X.to("meta"), 1), "on one device of type cpu."),
    ],
)
def test_arguments_that_do_not_fit_are_named(loaded, values, words):
    with pytest.raises(CourseError, match=re.escape(words)):
        loaded.add(*values)


def test_numbers_that_a_type_does_not_hold_are_refused():
    beyond = {"i1": 2, "u8": -1, "fp32": 1e39, "fp16": 1e39, "fp64": 10**400, "i8": 128}
    for name, value in beyond.items():
        with pytest.raises(CourseError, match="hold"):
            converter("x", SCALARS[name])(value)
    for name, value in {"i1": 0.5, "fp32": True, "fp64": "1", "i32": None}.items():
        with pytest.raises(CourseError, match="must be"):
            converter("x", SCALARS[name])(value)
    assert converter("x", SCALARS["i32"])(True) == 1
    assert math.isnan(converter("x", SCALARS["fp32"])(math.nan))


# Dispatch


@pytest.mark.parametrize(
    ("offsets", "n", "hints"),
    [
        ((0, 0, 0), 4096, "0d1d2d3d"),
        ((0, 0, 0), 1, "3c"),
        ((4, 0, 0), 1, "3c"),
        ((0, 1, 0), 4096, "0d"),
        ((0, 0, 0), 4095, "0d"),
        ((4, 4, 4), 4096, "0d1d2d3d"),
        ((1, 0, 0), 4096, ""),
        ((2, 0, 0), 7, ""),
    ],
)
def test_the_variant_with_the_most_hints_that_hold_is_launched(add, loaded, offsets, n, hints):
    """Told apart by the bytes in the library that is loaded for it: each variant's own."""
    by_parameters = {"3c": 5}
    with fake_driver.recorded() as calls:
        loaded.add(*(X[offset:] for offset in offsets), n)
    assert names(calls) == ["cuLibraryLoadData", "cuLibraryGetKernel", "cuLaunchKernel"]
    assert calls[-1].grid == (-(-n // 1024), 1, 1)
    assert len(calls[-1].arguments) == by_parameters.get(hints, 6)
    # Which one it was: the same call straight to that variant finds it loaded.
    function = next(each for each in add.functions if each.name.endswith(f"_{hints}"))
    with fake_driver.recorded() as calls:
        loaded._driver.check("load", loaded._library[f"load_{function.name}"]())
    assert calls == []


def test_algorithms_are_numbered_in_the_order_given(loaded):
    with fake_driver.recorded() as calls:
        for algo in range(3):
            loaded.add(X[1:], X, X, 2048, algo=algo)
    launched = [(call.grid[0], call.details["block"][0]) for call in launches(calls)]
    assert launched == [(2, 128), (4, 128), (2, 256)]
    assert {call.grid[1:] for call in launches(calls)} == {(1, 1)}
    assert loaded.add.algorithms == 3
    assert loaded._library.add_get_num_algos() == 3
    values = [*[X.data_ptr()] * 3, 16]
    for algo in (-1, 3, 2**31 - 1, -(2**31)):
        result = loaded._driver.call(0, loaded.add._function, None, *values, algo)
        assert result == 1  # CUDA_ERROR_INVALID_VALUE
        said = f"add has 3 algorithms, numbered from 0, and none is {algo}"
        with pytest.raises(CourseError, match=said):
            loaded.add(X, X, X, 16, algo=algo)


def test_the_default_is_algorithm_0(loaded):
    pointers = [ctypes.c_uint64(X.data_ptr())] * 3
    with fake_driver.recorded() as calls:
        assert loaded._driver.call(0, loaded._library.add_default, None, *pointers, 4096) == 0
    assert launches(calls)[0].grid == (4, 1, 1)


def test_where_no_variant_takes_the_arguments_it_is_an_error(add, folder):
    only = aot.link([add.headers[0], add.headers[2]], folder / "strict" / "add")
    function = aot.load(aot.build(only), driver=fake_driver).add
    function(X, X, X, 32)
    function(X[1:], X, X, 1)
    said = "INVALID_VALUE: a promise of the signature does not hold"
    with fake_driver.recorded() as calls, pytest.raises(CourseError, match=said):
        function(X[1:], X, X, 32)
    assert calls == []


def test_a_variant_alone_keeps_its_promises_too(add, folder):
    function = aot.load(aot.build(add.headers[0], folder / "alone.so"), driver=fake_driver).add
    with fake_driver.recorded() as calls:
        for values in ((X[1:], X, X, 32), (X, X, X, 33)):
            with pytest.raises(CourseError, match="promised: x_ptr:16"):
                function(*values)
    assert calls == []
    function(X, X, X, 32)


def test_hints_past_the_tenth_argument_are_read_right(folder):
    """Arguments 0 and 10 have hints, at which Triton's own linker takes 0d10d for 0d1 and 0d."""
    signatures = [f"*fp32{hint}, {', '.join(['i32'] * 9)}, i32{hint}, 64" for hint in (":16", "")]
    made = aot.export(kernels.many_kernel, signatures, "1", "many", folder / "many" / "many")
    assert made.functions[0].name.endswith("_0d10d")
    linked = aot.link(made, folder / "many_linked")
    loaded = aot.load(aot.build(linked), driver=fake_driver)
    for x, n, function in ((X, 32, 0), (X[1:], 32, 1), (X, 33, 1)):
        loaded.unload()
        loaded.many(x, *range(9), n)
        with fake_driver.recorded() as calls:
            loaded._library[f"load_{made.functions[function].name}"]()
        assert calls == []


# Linking


def test_a_grid_may_be_written_in_two_ways(add, folder):
    grid = "cdiv( n,BLOCK ), 1"
    other = aot.export(kernels.add_kernel, ADD[1], grid, "add", folder / "spaced" / "add")
    assert len(aot.link([add.headers[0], other], folder / "spaced" / "linked").algorithms) == 1


def test_headers_that_do_not_go_together_are_named(add, folder):
    def export(signature, name, out, target=None):
        return aot.export(kernels.add_kernel, signature, "1", name, folder / out, target=target)

    other = export(ADD[1].replace("i32", "i64"), "add", "other/add")
    renamed = export(ADD[1], "sum", "sum")
    elsewhere = export(ADD[1], "add", "sm_80/add", "sm_80")
    both = rf"{re.escape(str(add.headers[0]))} and {{}} {{}}"
    for wrong, words in (
        (other, r"take different arguments, \(.*i32 n\) and \(.*i64 n\)"),
        (renamed, "are of add and sum"),
        (elsewhere, "are for sm_90 and sm_80"),
        (add, "both hold add_"),
    ):
        with pytest.raises(CourseError, match=both.format(re.escape(str(wrong.headers[0])), words)):
            aot.link([add.headers[0], wrong], folder / "never")
    assert not list(folder.glob("never*"))


def test_what_is_no_header_of_ours_is_refused(add, library, folder, monkeypatch):
    header = add.headers[0].read_text()
    (folder / "x.h").write_text("int x;\n")
    (folder / "y.h").write_text(header.replace('"functions"', "functions", 1))
    (folder / "changed.h").write_text(header.replace('"hint": 16', '"hint": null', 1))
    others = [folder / name for name in ("x.h", "y.h", "changed.h")]
    said = "is no header that `course aot` wrote, or was changed: export the kernel again"
    for path in (*others, add.sources[0], library):
        with pytest.raises(CourseError, match=said):
            aot.link(path, folder / "never")
    with pytest.raises(CourseError, match="could not be read: No such file"):
        aot.link(folder / "z.h", folder / "never")
    with pytest.raises(CourseError, match="is linked already"):
        aot.link(folder / "linked.h", folder / "never")
    with pytest.raises(CourseError, match="nothing to link"):
        aot.link([], folder / "never")
    with pytest.raises(CourseError, match="link takes what export returned, or headers; this is 5"):
        aot.link(5, folder / "never")
    monkeypatch.chdir(folder)
    with pytest.raises(CourseError, match="leaves its folder"):
        aot.link(add, "../never")


def test_what_is_linked_prints_itself(add, folder):
    text = str(aot.link(add, folder / "printed"))
    assert "0  BLOCK = 1024; 4 warps, 3 stages" in text
    assert text.index("x_ptr:16, y_ptr:16") < text.index("n:1\n") < text.index("any arguments")


# Grids


@pytest.mark.parametrize(
    ("grid", "n", "result"),
    [
        ("n", 0, 0), ("n, 0", 5, 0), ("n", -1, 1), ("n, 65536", 1, 1),
        ("n, 65535, 65535", 1, (1, 65535, 65535)), ("n * n", 2**31 - 1, 1), ("n / (n - n)", 1, 1),
        ("2147483647", 1, (2147483647, 1, 1)), ("n + 1", 2**31 - 1, 1),
        ("cdiv(n, BLOCK), n % 3, 2", 4, (1, 1, 2)),
    ],
)  # fmt: skip
def test_a_grid_that_cannot_be_launched_is_an_error_and_an_empty_one_is_not(
    folder, add, grid, n, result
):
    header = folder / "grids" / "add.h"
    header.parent.mkdir(exist_ok=True)
    function = replace(add.functions[1], grid=grid)
    cubin = read_cubin(cubin_in(add.sources[1]), "add_kernel")
    header.write_text(code.header(function))
    header.with_suffix(".c").write_text(code.source(function, cubin, "add.h"))
    launch = aot.load(aot.build(header), driver=fake_driver).add
    with fake_driver.recorded() as calls:
        if result == 1:
            with pytest.raises(CourseError, match="INVALID_VALUE"):
                launch(X, X, X, n)
        else:
            launch(X, X, X, n)
    grids = [result] if isinstance(result, tuple) else []
    assert [call.grid for call in launches(calls)] == grids


# The driver's errors, and its library


@pytest.mark.parametrize(
    ("call", "code", "name"),
    [
        ("cuLibraryLoadData", 209, "CUDA_ERROR_NO_BINARY_FOR_GPU"),
        ("cuLibraryGetKernel", 500, "CUDA_ERROR_NOT_FOUND"),
        ("cuLaunchKernel", 719, "CUDA_ERROR_LAUNCH_FAILED"),
        ("cuLaunchKernel", 12345, "CUDA error 12345"),
    ],
)
def test_the_drivers_errors_come_back_and_nothing_stays_half_loaded(
    loaded, monkeypatch, call, code, name
):
    monkeypatch.setenv("COURSE_FAKE_DRIVER_FAIL", f"{call}={code}")
    with (
        fake_driver.recorded() as calls,
        pytest.raises(CourseError, match=rf"add returned {name}\."),
    ):
        loaded.add(X, X, X, 16)
    assert calls[-1 if call != "cuLibraryGetKernel" else -2].result == code
    assert names(calls).count("cuLibraryUnload") == (call == "cuLibraryGetKernel")
    monkeypatch.delenv("COURSE_FAKE_DRIVER_FAIL")
    loaded.add(X, X, X, 16)


def test_loading_and_unloading_may_come_in_any_order(loaded):
    with fake_driver.recorded() as calls:
        verbs = ("unload", "load", "load", "unload", "unload", "load")
        results = [loaded._library[f"{verb}_add"]() for verb in verbs]
        loaded.add(X, X, X, 16)
    assert results == [0] * 6
    assert names(calls).count("cuLibraryLoadData") == 12
    assert names(calls).count("cuLibraryUnload") == 6


def test_unload_returns_an_error_and_goes_on(loaded, monkeypatch):
    loaded._library.load_add()
    monkeypatch.setenv("COURSE_FAKE_DRIVER_FAIL", "cuLibraryUnload=999")
    said = "unload_add returned CUDA_ERROR_UNKNOWN"
    with fake_driver.recorded() as calls, pytest.raises(CourseError, match=said):
        loaded.unload()
    assert len(calls) == 6


def test_eight_threads_that_call_first_load_it_once(loaded, monkeypatch):
    monkeypatch.setenv("COURSE_FAKE_DRIVER_LOAD_MS", "50")
    barrier = Barrier(8)

    def launch(_):
        barrier.wait()
        loaded.add(X, X, X, 4096)

    with fake_driver.recorded() as calls, ThreadPoolExecutor(8) as pool:
        list(pool.map(launch, range(8)))
    assert names(calls).count("cuLibraryLoadData") == 1
    assert names(calls).count("cuLaunchKernel") == 8
    assert {call.result for call in calls} == {0}


def test_more_than_48_kb_of_shared_memory_is_allowed_on_each_device_that_can_run_it(
    folder, monkeypatch
):
    signature = "*fp16:16, *fp16:16, *fp32:16, i32:16, 128"
    made = aot.export(kernels.large_kernel, signature, "1", "large", folder / "large", num_stages=3)
    shared = made.functions[0].shared_bytes
    assert shared > 48 * 1024
    function = aot.load(aot.build(made), driver=fake_driver).large
    monkeypatch.setenv("COURSE_FAKE_DRIVER_DEVICES", "4")
    monkeypatch.setenv("COURSE_FAKE_DRIVER_CAPABILITIES", "90,80,90,100")
    with fake_driver.recorded() as calls:
        function(X.half(), X.half(), X, 128)
    allowed = [call.details for call in calls if call.name == "cuKernelSetAttribute"]
    assert [(each["device"], each["value"]) for each in allowed] == [(0, shared), (2, shared)]
    assert launches(calls)[0].details["shared"] == shared
    assert launches(calls)[0].result == 0
    monkeypatch.setenv("COURSE_FAKE_DRIVER_FAIL", "cuKernelSetAttribute=1")
    again = aot.load(aot.build(made), driver=fake_driver).large
    with pytest.raises(CourseError, match="INVALID_VALUE"):
        again(X.half(), X.half(), X, 128)


@pytest.mark.parametrize("target", [name for name in TARGETS if name.startswith("sm_")])
def test_a_fake_device_allows_the_shared_memory_of_its_capability(monkeypatch, target):
    monkeypatch.setenv("COURSE_FAKE_DRIVER_CAPABILITIES", target.removeprefix("sm_"))
    most, optin = ctypes.c_int(), 97  # CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    Driver(fake_driver).library.cuDeviceGetAttribute(ctypes.byref(most), optin, 0)
    assert most.value == TARGETS[target].shared_bytes


def test_a_stream_is_passed_on(loaded):
    with fake_driver.recorded() as calls:
        loaded.add(X, X, X, 16, stream=77)
        loaded.add(X, X, X, 16)
    assert [call.details["stream"] for call in launches(calls)] == [77, 0]


# Building and loading


def test_without_a_compiler_it_is_one_sentence(add, folder, monkeypatch):
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(CourseError, match="There is no C compiler"):
        aot.build(add.headers[0], folder / "never.so")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("gcc -fno-such-option", r"failed: exit code 1; it said: .*no-such-option"),
        ("sh -c 'kill -SEGV $$'", r"^The compiler sh was killed by SIGSEGV\.$"),
        ('"gcc', "is no command: No closing quotation"),
        ("true", r"wrote no library: is \$CC a C compiler"),
        ("no-such-compiler -O2", r"\$CC names no-such-compiler, which is not found"),
    ],
)
def test_a_compiler_that_makes_no_library_is_quoted(folder, add, monkeypatch, command, words):
    monkeypatch.setenv("CC", command)
    with pytest.raises(CourseError, match=words):
        aot.build(add.headers[0], folder / "never.so")
    assert not (folder / "never.so").exists()


def test_build_writes_over_its_own_library_alone(folder, add):
    out = folder / "over.so"
    aot.build(add.headers[0], out)
    aot.build(add.headers[0], out)
    out.write_bytes(b"\x7fELF mine")
    with pytest.raises(CourseError, match="was not written by this tool"):
        aot.build(add.headers[0], out)
    assert out.read_bytes() == b"\x7fELF mine"


def test_what_is_no_path_is_told_the_step_before(add):
    with pytest.raises(CourseError, match=r"load takes the path that aot\.build returned"):
        aot.load(add)
    with pytest.raises(CourseError, match=r"build takes what aot\.export or aot\.link returned"):
        aot.build([add])


def test_a_missing_source_is_named(folder, add):
    made = aot.export(kernels.add_kernel, ADD, "cdiv(n, BLOCK)", "add", folder / "gone" / "add")
    linked = aot.link(made, folder / "moved")
    made.sources[1].unlink()
    with pytest.raises(CourseError, match=r"gone/add\..*\.c is not there: export it again"):
        aot.build(linked.header)
    with pytest.raises(CourseError, match=r"gone/add\..*\.c is not there, beside its header"):
        aot.link(made, folder / "moved")


def test_build_does_not_write_over_what_it_builds_from(folder, add):
    linked = aot.link(add, folder / "kept")
    for out in (linked.header, linked.sources[0], add.sources[0]):
        before = out.read_bytes()
        with pytest.raises(CourseError, match="is one of the files to build from"):
            aot.build(linked, out)
        assert out.read_bytes() == before


def test_a_library_calls_its_own_functions_where_another_has_the_same_names(folder):
    built = []
    for kernel in (kernels.add_kernel, kernels.subtract_kernel):
        made = aot.export(kernel, ADD, "cdiv(n, BLOCK)", "same", folder / kernel.__name__ / "same")
        built.append(aot.build(aot.link(made, folder / kernel.__name__ / "linked")))
    ctypes.CDLL(str(built[0]), mode=ctypes.RTLD_GLOBAL)
    with fake_driver.recorded() as calls:
        aot.load(built[1], driver=fake_driver).same(X, X, X, 1024)
    assert launches(calls)[0].details["kernel"] == "subtract_kernel"


def test_only_what_the_headers_declare_is_visible(library):
    command = ["readelf", "--dyn-syms", "--wide", str(library)]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in table.splitlines() if " GLOBAL " in line]
    defined = {row[7] for row in rows if row[6] != "UND"}
    undefined = {row[7].split("@")[0] for row in rows if row[6] == "UND"}
    others = [name for name in defined if not re.fullmatch(r"(load_|unload_)?add(_\w+)?", name)]
    assert others == ["course_aot_index"]
    of_driver = {name for name in undefined if name.startswith("cu")}
    assert of_driver == {
        "cuLaunchKernel",
        *(f"cuLibrary{f}" for f in ("LoadData", "GetKernel", "Unload")),
    }


def test_a_library_that_was_built_again_is_loaded_anew(folder, add):
    out = folder / "again.so"
    one = aot.load(aot.build(add.headers[1], out), driver=fake_driver)
    two = aot.load(aot.build(add.headers[4], out), driver=fake_driver)
    with fake_driver.recorded() as calls:
        one.add(X, X, X, 1024)
        two.add(X, X, X, 1024)
    assert [call.grid[0] for call in launches(calls)] == [1, 2]


def test_what_is_no_library_is_refused(folder, library):
    with pytest.raises(CourseError, match="There is no library"):
        aot.load(folder / "none.so", driver=fake_driver)
    (folder / "text.so").write_text("text")
    for path in (folder / "text.so", fake_driver.path()):
        with pytest.raises(CourseError, match=r"is no library that aot\.build made"):
            aot.load(path, driver=fake_driver)


def test_a_library_that_was_cut_off_or_changed_is_not_loaded(folder, library):
    """In the process that loads it as it is, it dies of SIGBUS or SIGSEGV."""
    whole, damaged = library.read_bytes(), folder / "damaged.so"
    lengths = (0, 100, 2000, len(whole) // 2, len(whole) - 300, len(whole) - 1)
    start, end = whole[:5000], whole[5000:]
    changed = [
        start + end[1:],
        start + b"\0" + end,
        start + bytes(1000) + end[1000:],
        whole + b"\0",
    ]
    said = r"damaged\.so is no library that aot\.build made, or it was cut off or changed"
    for content in (*(whole[:length] for length in lengths), *changed):
        damaged.write_bytes(content)
        with pytest.raises(CourseError, match=said):
            aot.load(damaged, driver=fake_driver)
    damaged.write_bytes(whole)
    aot.load(damaged, driver=fake_driver).add(X, X, X, 16)


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_damaged_fake_driver_is_built_again(tmp_path, monkeypatch, damage):
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    first = fake_driver.path()
    whole = first.read_bytes()
    first.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert fake_driver.path() == first and first.read_bytes() == whole


def test_a_fake_driver_that_does_not_load_is_said_to(library, tmp_path):
    class Damaged:
        @staticmethod
        def path():
            (tmp_path / "libcuda.so.1").write_text("text")
            return tmp_path / "libcuda.so.1"

    said = r"The fake driver could not be loaded: .*file too short"
    with pytest.raises(CourseError, match=said):
        aot.load(library, driver=Damaged)
    said = r"The driver is 'fake', and must be course\.aot\.fake_driver, or None"
    with pytest.raises(CourseError, match=said):
        aot.load(library, driver="fake")


@pytest.mark.parametrize("stream", ["0", -1, 3.5, True, 2**64])
def test_what_is_no_stream_is_named(loaded, stream):
    said = rf"the stream is {stream!r}, and must be a torch"
    with fake_driver.recorded() as calls, pytest.raises(CourseError, match=said):
        loaded.add(X, X, X, 16, stream=stream)
    assert not launches(calls)


def test_a_function_that_was_not_linked_has_one_algorithm(add, folder):
    function = aot.load(aot.build(add.headers[0], folder / "unlinked.so"), driver=fake_driver).add
    function(X, X, X, 16, algo=0)
    with pytest.raises(CourseError, match="has 1 algorithm, numbered from 0, and none is 5"):
        function(X, X, X, 16, algo=5)


def test_a_function_that_is_not_there_is_named(loaded):
    with pytest.raises(AttributeError, match=r"has no function .sub.: it has add"):
        loaded.sub  # noqa: B018
    assert "add" in dir(loaded)
    assert "add(x_ptr: *fp32, y_ptr: *fp32, out_ptr: *fp32, n: i32), 3 algorithms" in str(loaded)


def test_once_the_fake_driver_is_there_its_name_does_not_pass_for_the_real_one(library, loaded):
    with pytest.raises(CourseError, match="start a new process"):
        aot.load(library)


OTHERS = """
import ctypes, sys
from course import CourseError, aot
for driver in (None, aot.fake_driver):
    try:
        aot.load({library!r}, driver=driver)
        print("loaded")
    except CourseError as error:
        print(error)
    ctypes.CDLL({other!r}, mode=ctypes.RTLD_GLOBAL)
"""


def test_a_real_driver_that_is_there_before_is_not_mixed_with_the_fake_driver(library, folder):
    other = "int cuLaunchKernel(void); int cuLaunchKernel(void) { return 0; }\n"
    (folder / "other.c").write_text(other)
    compile_library([folder / "other.c"], folder / "other.so")
    ended = run_source(OTHERS.format(library=str(library), other=str(folder / "other.so")))
    without, with_other = ended.stdout.splitlines()
    no_driver = "libcuda.so.1 is not on this machine: load with driver=aot.fake_driver"
    assert no_driver in without or without == "loaded"
    assert "start a new process" in with_other


SAMPLE = """
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include "linked.h"
#define CHECK(call) do { CUresult result = call; \\
    if (result) { printf("%s: %d\\n", #call, result); exit(1); } } while (0)
int main(void) {
    CUdevice device; CUcontext context; CUdeviceptr x; CUevent start, end;
    float host[4096], ms = -1;
    for (int i = 0; i < 4096; i++) host[i] = (float)i;
    CHECK(cuInit(0)); CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device)); CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&x, sizeof host)); CHECK(cuMemcpyHtoD(x, host, sizeof host));
    CHECK(cuEventCreate(&start, 0)); CHECK(cuEventCreate(&end, 0)); CHECK(cuEventRecord(start, 0));
    CHECK(add_default(0, x, x, x, 4096));
    CHECK(cuEventRecord(end, 0)); CHECK(cuEventSynchronize(end));
    CHECK(cuEventElapsedTime(&ms, start, end));
    CHECK(cuMemcpyDtoH(host, x, sizeof host)); CHECK(cuMemFree(x)); CHECK(unload_add());
    printf("%g %d\\n", host[7], ms >= 0);
    return 0;
}
"""


def test_a_c_program_runs_on_the_fake_driver(library, folder):
    (folder / "sample.c").write_text(SAMPLE)
    program = str(folder / "sample")
    driver = fake_driver.path()
    files = [str(folder / "sample.c"), str(library), str(driver)]
    linker = [f"-Wl,-rpath-link,{driver.parent}", "-o", program]
    subprocess.run(["gcc", "-std=c99", *STRICT, *files, *linker], check=True)
    environ = {**os.environ, "LD_LIBRARY_PATH": str(driver.parent)}
    with fake_driver.recorded() as calls:
        environ["COURSE_FAKE_DRIVER_LOG"] = os.environ["COURSE_FAKE_DRIVER_LOG"]
        ended = subprocess.run([program], env=environ, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "7 1\n")
    *loading, last = names(calls)
    assert loading == ["cuLibraryLoadData", "cuLibraryGetKernel", "cuLaunchKernel"]
    assert last == "cuLibraryUnload"
    environ["COURSE_FAKE_DRIVER_FAIL"] = "cuInit=100"
    ended = subprocess.run([program], env=environ, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (1, "cuInit(0): 100\n")


@pytest.mark.parametrize(
    "name",
    ["kernel", "stream", "lock", "load", "loaded", "arguments", "result", "library", "cubin"],
)
def test_a_function_may_be_called_as_something_that_the_c_has_for_itself(tmp_path, name):
    exported = aot.export(kernels.add_kernel, ADD, "cdiv(n, BLOCK)", name, tmp_path / "x")
    loaded = aot.load(aot.build(aot.link(exported, tmp_path / "linked")), driver=fake_driver)
    x = torch.zeros(64)
    with fake_driver.recorded() as calls:
        getattr(loaded, name)(x, x, x, 64)
    assert [call.name for call in calls].count("cuLaunchKernel") == 1
