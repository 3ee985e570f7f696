"""export: the C of a kernel, its names and its machine code; what is refused, and then not
written."""

import errno
import hashlib
import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import triton
from typer.testing import CliRunner

from course import aot, handed, lower, stock
from course.aot import api, worker
from course.aot.abi import SCALARS, Scalar
from course.aot.c import kernel as code
from course.aot.cubin import Cubin, check_parameters, read_cubin
from course.aot.manifest import JSON_LINE, Manifest, read_header
from course.aot.options import Options, nvidia_target
from course.aot.signature import parse_signature
from course.cli import app
from course.errors import CourseError
from course.isolate.commands import run_source
from course.isolate.pool import stop_workers
from course.lowering.api import lower_file
from course.lowering.kernel_reference import InFile
from kernels.softmax import softmax_kernel_v2
from tests.support import aot_kernels as kernels
from tests.support.aot_files import complaints, cubin_in
from tests.support.processes import computed_s, python_path

ROOT = Path(__file__).parents[2]
FILE = str(Path(kernels.__file__))
ADD = "*fp32:16, *fp32:16, *fp32:16, i32:16, 1024"
GRID = "cdiv(n, BLOCK)"
LARGE = "*fp16:16, *fp16:16, *fp32:16, i32:16, 256"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def refused(*args, **kwargs):
    """The sentence with which export refuses, after which nothing is there that was not before."""
    before = sorted(Path().rglob("*"))
    with pytest.raises(CourseError) as caught:
        aot.export(*args, **kwargs)
    assert sorted(Path().rglob("*")) == before
    return str(caught.value)


def write_kernel(text, file="k.py"):
    """A file with a kernel; its text begins in line 4."""
    Path(file).write_text(f"\nimport triton\nimport triton.language as tl\n{text}")


def cubin_of(exported):
    return cubin_in(exported.sources[0])


# Names and contents

NAMES = {
    "hints": (ADD, 4, 3, "out/add"),
    "none": ("*fp32, *fp32, *fp32, i32, 1024", 4, 3, "out/add"),
    "one": ("*fp32:16, *fp32, *fp32, i32:1, 512", 8, 1, "out/add"),
    "a dot": ("*fp16:16, *fp16, *fp32, i64:16, 64", 1, 2, "out/add.v2"),
}


@pytest.mark.skipif(
    triton.__version__ < "3.7",
    reason="needs Triton 3.7: before, names held the index of every argument",
)
@pytest.mark.parametrize("case", NAMES)
def test_files_and_functions_are_named_as_tritons_own_tool_names_them(case, tmp_path):
    signature, num_warps, num_stages, out = NAMES[case]
    options = {"num_warps": num_warps, "num_stages": num_stages}
    made = aot.export(kernels.add_kernel, signature, "n, 1, 1", "add", out, **options)
    path = tmp_path / "stock" / Path(out).name
    stock_options = ("n, 1, 1", "add", path, num_warps, num_stages)
    theirs = stock.compile(f"{FILE}:add_kernel", signature, *stock_options)
    assert [each.name for each in made.functions] == [theirs.function]
    files = sorted(each.name for each in path.parent.iterdir())
    assert sorted(each.name for each in (*made.headers, *made.sources)) == files


POINTERS = ["*fp32:16", "*fp32:16"]
ATTENTION = [*["*fp16:16"] * 4, "fp32", "i32:16", 64, 64, True]
KERNELS = {
    "a vector add": (kernels.add_kernel, [*POINTERS, "*fp32:16", "i32:16", 1024], {}),
    "one element": (kernels.add_kernel, ["*fp32", *POINTERS, "i32:1", 1024], {"num_warps": 8}),
    "a softmax": (softmax_kernel_v2, [*POINTERS, "i32", "i32:16", 1024], {"num_warps": 4}),
    "attention": (kernels.attention_kernel, ATTENTION, {"num_warps": 4, "num_stages": 2}),
}


@pytest.mark.parametrize("case", KERNELS)
def test_the_machine_code_is_the_one_of_the_jit(case):
    kernel, args, options = KERNELS[case]
    signature = ", ".join(map(str, args))
    made = aot.export(kernel, signature, "1", "kernel_c", "out/k", **options)
    of_jit = lower(kernel, *args, target="sm_90", **options)
    assert cubin_of(made) == of_jit.cubin
    assert made.functions[0].registers == of_jit.resources.registers
    assert made.functions[0].shared_bytes == of_jit.resources.shared_bytes


def test_the_hints_reach_the_machine_code():
    one, two = (
        aot.export(kernels.add_kernel, text, GRID, "add", "out/k")
        for text in (ADD, ADD.replace(":16", ""))
    )
    assert cubin_of(one) != cubin_of(two)


def test_a_constant_may_be_a_run_time_flag_and_an_argument_a_constant():
    made = aot.export(kernels.scale_kernel, "*fp32, 2.0, i32, 64, i1", "1", "scale", "out/k")
    assert [each.name for each in made.functions[0].passed] == ["x_ptr", "n", "EVEN"]
    assert made.functions[0].constants == {"scale": 2.0, "BLOCK": 64}


CELL = """
from course import aot
import triton
import triton.language as tl

@triton.jit
def cell_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)

print(aot.export(cell_kernel, "*fp32, 64", "1", "cell", "cell").functions[0].kernel)
"""


def test_a_kernel_that_stands_in_no_module_is_exported():
    ended = run_source(CELL)
    assert (ended.how, ended.stdout) == ("finished", "cell_kernel\n"), ended.stderr


def test_the_header_says_what_a_caller_must_know_and_reads_back():
    signature = "*bf16:16, bf16, i64:1, 64, i1"
    made = aot.export(kernels.scale_kernel, signature, GRID, "scale", "out/scale")
    text = made.headers[0].read_text()
    for words in (
        "CUstream stream, CUdeviceptr x_ptr, float scale, int8_t EVEN);",
        "x_ptr: device memory, bf16, a multiple of 16",
        "scale: rounded to bf16",
        "n: no parameter, since it is 1",
        "EVEN: 0 or 1",
        "Constants: BLOCK = 64.",
        "4 warps, 3 stages;",
        "sm_90",
        f"Triton {triton.__version__}",
    ):
        assert words in text
    assert read_header(made.headers[0]) == Manifest(made.functions)
    assert "scale_kernel for sm_90" in str(made)


@pytest.mark.compiler
@pytest.mark.parametrize(
    "compiler", [["gcc", "-std=c99", "-pedantic"], ["g++", "-x", "c++", "-std=c++17"]]
)
def test_headers_serve_c_and_c_plus_plus_with_awkward_names(compiler):
    signature = f"i32, *fp32, {', '.join(['i32'] * 7)}, 64"
    made = aot.export(kernels.awkward_kernel, signature, "bits_x, größe", "awkward", "out/awkward")
    linked = aot.link(made, "out/linked")
    Path("use.c").write_text(
        f'#include "{made.headers[0]}"\n#include "{linked.header}"\n'
        "CUresult use(CUdeviceptr x);\n"
        "CUresult use(CUdeviceptr x) { return awkward_default(0, 1, x, 1, 1, 1, 1, 1, 1, 1); }\n"
    )
    assert complaints("use.c", *compiler, "-I.") == ""
    aot.build(linked)


@pytest.mark.compiler
def test_every_name_that_the_c_uses_may_be_an_arguments_name(tmp_path):
    """Each identifier of the C, as the name of an integer: none hides what the C needs."""
    grid = "cdiv(i32, 3) * u64 - i64 / i8 % 7, i16 + 1"
    made = aot.export(kernels.types_kernel, TYPES, grid, "types", "out/types")
    plain = made.functions[0]
    cubin = Cubin(b"\x7f", "types_kernel", read_cubin(cubin_of(made), "types_kernel").sizes, 8)
    text = code.source(plain, cubin, "h")
    words = set(re.findall(r"\b[A-Za-z_]\w*", text.replace("0x", "")))
    names = sorted(words - {"i8", "i16", "i32", "i64", "u64"})
    for start in range(0, len(names), 9):
        chosen = [*names[start : start + 9], *(f"spare{i}" for i in range(9))][:9]
        taken = ["b", "u8", "u16", "u32", "half", "brain", "single", "double", "out_ptr"]
        renamed = dict(zip(taken, chosen, strict=True))
        arguments = tuple(
            replace(each, name=renamed.get(each.name, each.name)) for each in plain.arguments
        )
        function = replace(plain, arguments=arguments)
        (tmp_path / "h.h").write_text(code.header(function))
        (tmp_path / "h.c").write_text(code.source(function, cubin, "h.h"))
        assert complaints(tmp_path / "h.c", "gcc", "-std=gnu99") == "", chosen


TYPES = "*fp64, i1, i8, i16, i32, i64, u8, u16, u32, u64, fp16, bf16, fp32, fp64"


# What is refused


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"variants": "*fp32, *fp32"}, "has 2 parts, and add_kernel takes 5 arguments: x_ptr"),
        ({"variants": "*fp32, *fp32"}, "5 arguments: x_ptr, y_ptr, out_ptr, n, BLOCK"),
        ({"variants": "*fp32, *fp32, *fp32, int, 64"}, "Part 4 of the signature, 'int', has"),
        ({"variants": "*fp32, *fp32, *fp32, int, 64"}, "'int', has PyTorch's name"),
        ({"variants": "tensordesc<fp32[64]>, *fp32, *fp32, i32, 64"}, "tensor descriptor"),
        ({"variants": []}, "There is nothing to export"),
        ({"variants": None}, "The variants are None: give a signature"),
        ({"variants": [None]}, "give a signature, as a text, or a list of them"),
        ({"grid": 1}, "The grid is 1, and must be a text"),
        ({"name": None}, "cannot name a C function"),
        ({"out": 5}, "The output is 5, and must be a path"),
        ({"target": 5}, "The target is 5, and must be a text"),
        ({"variants": [ADD, ADD]}, "is given twice"),
        ({"grid": "m"}, "no argument of that name; its integers are n, BLOCK"),
        ({"grid": '1; system("id");'}, "not understood at ';'"),
        ({"name": "1add"}, "cannot name a C function"),
        ({"name": "int"}, "means something in C"),
        ({"out": "../add"}, "leaves its folder"),
        ({"out": "/tmp/add"}, "is absolute"),
        ({"num_warps": 3}, "num_warps is 3"),
        ({"num_stages": -1}, "num_stages is -1"),
        ({"maxnreg": 8}, "maxnreg is 8: it must be a whole number of registers per thread"),
        ({"maxnreg": 8}, "of registers per thread, 24 to 255."),
        ({"maxnreg": "64"}, "maxnreg is '64'"),
        ({"enable_fp_fusion": "no"}, "enable_fp_fusion is 'no': it must be True or False."),
        ({"name": "_start"}, "means something in C"),
        ({"name": "std"}, "means something in C"),
        ({"name": "course_aot_index"}, "means something in C"),
        ({"variants": "*fp32, i32, 'a */ b'"}, "such as a tuple of pointers, export a"),
        ({"variants": "*fp32, i32, tl.load"}, "'tl.load', is neither a type nor a number"),
        ({"variants": "*fp32, i32, float16"}, "write fp16, or tl.fp16 if the type itself is a con"),
        ({"variants": "*fp32, i32, (*fp32, 8)"}, "Part 3 of the signature, '(*fp32, 8)', is"),
        ({"target": "gfx942"}, "AMD"),
        ({"target": "hip:gfx942:64"}, "AMD"),
        ({"target": "MI300X"}, "MI300X is an AMD target"),
        ({"grid": "n\ud800"}, "and must be a text"),
        ({"variants": aot.Variant(5)}, "give a signature, as a text, or a list of them"),
        ({"target": "sm_91"}, "There is no target 'sm_91'"),
        ({"target": "cuda:90:64"}, "warps of 64"),
        ({"kernel": "nothing.py:add_kernel"}, "There is no file nothing.py"),
        ({"kernel": "add_kernel"}, "names no kernel"),
        ({"kernel": f"{FILE}:sub_kernel"}, "There is no 'sub_kernel'"),
        ({"kernel": print}, "takes a kernel"),
        (
            {"kernel": kernels.wrong_kernel, "variants": "*fp32, i32, 64"},
            "undefined_name is not defined",
        ),
        (
            {"kernel": kernels.descriptor_kernel, "variants": "*fp32:16, i32:16, 64"},
            "scratch memory",
        ),
        (
            {"kernel": kernels.large_kernel, "variants": LARGE, "num_warps": 8, "num_stages": 5},
            "may have 232,448",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_exported_is_refused_and_nothing_is_written(arguments, words):
    good = {"kernel": kernels.add_kernel, "variants": ADD, "grid": "1"}
    assert words in refused(**{**good, "name": "add", "out": "out/add", **arguments})


def test_what_ptxas_refuses_is_said_with_the_kernels_line():
    words = refused(kernels.odd_instruction_kernel, "*i32:16", "1", "odd", "out/odd")
    assert "odd_instruction_kernel does not compile: ptxas says: " in words
    first = kernels.odd_instruction_kernel.fn.__code__.co_firstlineno
    assert f"Line {first + 4} of {FILE}:  y = tl.inline_asm_elementwise(" in words


def test_of_several_variants_none_is_written_where_one_is_wrong():
    assert "has 1 part, and" in refused(kernels.add_kernel, [ADD, "*fp32"], GRID, "add", "out/add")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("raise SystemExit('no')", "SystemExit: no"),
        ("x = (", "SyntaxError"),
    ],
)
def test_a_file_that_does_not_load_is_said_to(text, words):
    Path("k.py").write_text(text)
    assert re.search(
        rf"k\.py cannot be loaded: .*{words}", refused("k.py:kernel", "i32", "1", "add", "add")
    )


def test_clusters_are_refused(monkeypatch):
    """No option of export's makes one: so the compiler is made to say that there is one."""

    class Compiled:
        class metadata:  # noqa: N801
            @staticmethod
            def _asdict():
                return {"num_ctas": 2}

    monkeypatch.setattr(worker, "compile_for_types", lambda *_: (Compiled, ""))
    with pytest.raises(CourseError, match="clusters of programs"):
        worker._compile(kernels.add_kernel, (), Options(4, 3), nvidia_target("sm_90"))


def test_a_type_of_another_size_than_the_kernels_is_refused():
    arguments = parse_signature("*fp32, fp64, i32").bind(["x", "scale", "n"], "kernel")
    right = Cubin(b"", "kernel", (8, 8, 4, 8, 8), 8)
    check_parameters(arguments, right)
    for sizes, words in {
        (8, 4, 4, 8, 8): "takes scale as 4 bytes, and fp64 has 8",
        (8, 8): "takes 2 parameters where 3 arguments",
        (8, 8, 4, 8, 8, 8): "takes 6 parameters",
        (8, 8, 4, 4): "takes 4 parameters",
    }.items():
        with pytest.raises(CourseError, match=words):
            check_parameters(arguments, Cubin(b"", "kernel", sizes, 8))


def test_an_export_with_such_a_type_writes_nothing(monkeypatch):
    """As if fp32 were passed as a double, as Triton's own tool does."""
    monkeypatch.setitem(SCALARS, "fp32", Scalar("fp32", "double", 8, "d"))
    words = refused(kernels.scale_kernel, "*fp32, fp32, i32, 64, 0", "1", "scale", "out/scale")
    assert "takes scale as 4 bytes, and fp32 has 8: nothing was written" in words


@pytest.mark.parametrize("code", [b"", b"not ELF", b"\x7fELF\x02" + bytes(100)])
def test_what_is_no_cubin_is_refused(code):
    with pytest.raises(CourseError, match="is not read"):
        read_cubin(code, "kernel")


def test_targets_have_two_names():
    assert nvidia_target("cuda:80:32") == nvidia_target("sm_80") == nvidia_target("cuda:80")


# Files


def test_a_file_of_ours_is_written_over_and_another_is_not():
    made = aot.export(kernels.add_kernel, ADD, GRID, "add", "out/add")
    aot.export(kernels.add_kernel, ADD, GRID, "add", "out/add")
    made.sources[0].write_text("mine\n")
    words = refused(kernels.add_kernel, ADD, GRID, "add", "out/add")
    assert "was not written by this tool" in words
    assert made.sources[0].read_text() == "mine\n"
    aot.export(kernels.add_kernel, ADD, GRID, "add", "out/add", force=True)
    assert "cubin" in made.sources[0].read_text()


def test_a_link_out_of_the_current_folder_is_not_followed(home, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    Path("away").symlink_to(tmp_path / "elsewhere")
    Path("inside").mkdir()
    Path("here").symlink_to("inside")
    for out in ("away/add", Path("away/new/add")):
        assert "leaves the current folder by a link" in refused(
            kernels.add_kernel, ADD, GRID, "add", out
        )
    assert not list((tmp_path / "elsewhere").iterdir())
    assert aot.export(kernels.add_kernel, ADD, GRID, "add", "here/add").headers[0].exists()


def test_an_absolute_path_object_is_taken(tmp_path):
    made = aot.export(kernels.add_kernel, ADD, GRID, "add", tmp_path / "elsewhere" / "add")
    assert made.headers[0].parent == tmp_path / "elsewhere"
    os.umask(umask := os.umask(0))
    assert made.headers[0].stat().st_mode & 0o777 == 0o666 & ~umask


class FullDisk(io.FileIO):
    """A file on a disk that is full after some bytes."""

    def write(self, content):
        super().write(content[:100])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("fails_at", [1, 2, 3, 4, 5, 6])
def test_on_a_full_disk_everything_is_as_before(fails_at, monkeypatch):
    made = aot.export(kernels.add_kernel, ADD, GRID, "add", "out/add")
    before = made.headers[0].read_bytes(), made.sources[0].read_bytes()
    made.sources[0].write_bytes(before[1] + b"// older\n")
    plain_open, plain_replace, count = Path.open, Path.replace, iter(range(1, 10))

    def opened(self, mode="r", *rest, **more):
        full = mode == "wb" and next(count) == fails_at
        return FullDisk(self, "wb") if full else plain_open(self, mode, *rest, **more)

    def replaced(self, target):
        if next(count) == fails_at:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return plain_replace(self, target)

    monkeypatch.setattr(Path, "open", opened)
    monkeypatch.setattr(Path, "replace", replaced)
    words = refused(kernels.add_kernel, [ADD], GRID, "add", "out/add")
    reason = "No space left on device|Read-only file system"
    said = rf"out/add\..* could not be written \(({reason})\): nothing was changed"
    assert re.search(said, words)
    assert made.headers[0].read_bytes() == before[0]
    assert made.sources[0].read_bytes() == before[1] + b"// older\n"


@pytest.mark.parametrize(
    ("kernel", "name", "target"),
    [
        (kernels.subtract_kernel, "add", "sm_90"),
        (kernels.add_kernel, "plus", "sm_90"),
        (kernels.add_kernel, "add", "sm_80"),
    ],
)
def test_an_export_does_not_write_over_another(kernel, name, target):
    made = aot.export(kernels.add_kernel, ADD, GRID, "add", "out/add", target="sm_90")
    again = aot.export(kernels.add_kernel, ADD, "n", "add", "out/add", target="sm_90")
    assert again.headers == made.headers
    before = made.sources[0].read_bytes()
    words = refused(kernel, ADD, GRID, name, "out/add", target=target)
    assert "exists, and holds add_kernel as add for sm_90: name another output" in words
    assert made.sources[0].read_bytes() == before
    other = aot.export(kernel, ADD, GRID, name, "out/add", target=target, force=True)
    assert other.headers == made.headers


def test_outputs_that_differ_behind_a_dot_do_not_write_over_each_other():
    made = aot.export(kernels.add_kernel, ADD, GRID, "add", "out/add.small", target="sm_90")
    before = made.sources[0].read_bytes()
    for out in ("out/add.large", "out/add"):
        words = refused(kernels.add_kernel, ADD, "n", "add", out, target="sm_90")
        assert "holds add_kernel as add for sm_90 from the output add.small: name another" in words
    assert made.sources[0].read_bytes() == before
    again = aot.export(kernels.add_kernel, ADD, "n", "add", "out/add.small", target="sm_90")
    assert again.headers == made.headers


def test_a_pipe_in_the_place_of_an_output_is_refused_and_not_read():
    made = aot.export(kernels.add_kernel, ADD, GRID, "add", "out/add", target="sm_90")
    made.sources[0].unlink()
    os.mkfifo(made.sources[0])
    writer = os.open(made.sources[0], os.O_RDWR)  # so that nobody who opens it waits
    os.write(writer, b"mine")
    words = refused(kernels.add_kernel, ADD, GRID, "add", "out/add", target="sm_90", force=True)
    assert "is a pipe or a device: name another output." in words
    os.close(writer)


def test_more_threads_than_a_program_may_have_are_refused():
    """As a kernel in Gluon has them, whose partitions add warps to 32."""
    compiled = worker.CompiledVariant((), b"", "kernel", 1152, 0, (), False, "")
    with pytest.raises(CourseError, match=r"has 1,152 threads, .* may have 1,024: take fewer"):
        api._check_limits("kernel", compiled, nvidia_target("sm_90"))


DEFAULTS = """
@triton.jit
def kernel(x_ptr, n=3, BLOCK: tl.constexpr = 8, D: tl.constexpr = tl.int32):
    tl.store(x_ptr + tl.arange(0, BLOCK), n.to(D))

@triton.jit
def nothing():
    pass
"""


def test_a_default_of_run_time_is_asked_for_and_one_that_is_a_type_is_not(home):
    write_kernel(DEFAULTS)
    words = refused("k.py:kernel", "*i32", "1", "k", "k")
    assert words.startswith("The signature leaves out n, whose default is used at a launch alone")
    made = aot.export("k.py:kernel", "*i32, i32", "1", "k", "k")
    assert made.functions[0].constants == {"BLOCK": 8, "D": "tl.int32"}


@pytest.mark.compiler
@pytest.mark.parametrize("variants", ["", [""]])
def test_a_kernel_without_arguments_is_exported(home, variants):
    write_kernel(DEFAULTS)
    made = aot.export("k.py:nothing", variants, "1", "k", "k")
    assert made.functions[0].prototype == f"CUresult {made.functions[0].name}(CUstream stream)"
    assert handed(aot.build(aot.link(made, "linked"))).arguments == ()


ALIKE = """
@triton.jit
def one(int: tl.constexpr, arg_int, x):
    tl.store(x, arg_int + int)

@triton.jit
def other(arg_int, x):
    tl.store(x, arg_int)
"""


@pytest.mark.compiler
def test_kernels_whose_arguments_have_other_names_in_c_are_linked(home):
    write_kernel(ALIKE)
    one = aot.export("k.py:one", "5, i32:16, *i32", "1", "k", "one")
    other = aot.export("k.py:other", "i32:16, *i32", "1", "k", "other")
    aot.build(aot.link([one, other], "k"))


HELPER = """
SCALE = tl.constexpr(1000.0)

@triton.jit
def shared(x):
    return x + SCALE

@triton.jit
def act(x):
    return shared(x)
"""
USER = """
from helper import act

SCALE = tl.constexpr(2.0)
BLOCKS = [triton.Config({"BLOCK": block}) for block in (16, 32)]

@triton.jit
def shared(x):
    return x * SCALE

@triton.autotune(configs=BLOCKS, key=["n"])
@triton.jit
def kernel(out_ptr, x, n, BLOCK: tl.constexpr):
    tl.store(out_ptr, act(shared(x)))
"""


def test_a_helper_of_another_module_keeps_that_modules_names(home, monkeypatch):
    """As an object or by its file, it is the same code, which multiplies by 2 and adds 1,000."""
    write_kernel(HELPER, "helper.py")
    write_kernel(USER, "user.py")
    monkeypatch.syspath_prepend(home)
    user = importlib.import_module("user")
    signature = "*fp32, fp32, i32, 16"
    made = [
        aot.export(kernel, signature, "1", "k", f"{way}/k")
        for way, kernel in (("a", user.kernel), ("b", "user.py:kernel"))
    ]
    assert cubin_of(made[0]) == cubin_of(made[1])
    ptx = lower(user.kernel, "*fp32", "fp32", "i32", BLOCK=16, target="sm_90").ptx
    assert "0f40000000" in ptx and "0f447A0000" in ptx
    for name in ("user", "helper"):
        sys.modules.pop(name)


ASSERTING = """
@triton.jit(debug=DEBUG)
def kernel(x_ptr, n):
    tl.device_assert(n > 0, "n")
    tl.store(x_ptr, n)
"""


def test_asserts_are_kept_where_the_kernel_asks_for_them(home):
    for debug in (True, False):
        write_kernel(ASSERTING.replace("DEBUG", str(debug)))
        made = aot.export("k.py:kernel", "*i32, i32", "1", "k", f"{debug}/k")
        assert (b"__assertfail" in cubin_of(made)) is debug


NESTED = """
@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr, SIZES: tl.constexpr = (1, (2, 3))):
    tl.store(x_ptr, n)
"""


def test_a_constant_that_no_signature_writes_is_named(home):
    write_kernel(NESTED)
    words = refused("k.py:kernel", "*i32, i32, 16", "1", "k", "k")
    assert words.startswith(
        "kernel has SIZES = (1, (2, 3)), and a constant is a number, True, False, None, a word"
    )


WORDS = """
@triton.jit
def kernel(x_ptr, KIND: tl.constexpr, MODE: tl.constexpr = "fast", TO: tl.constexpr = tl.float16):
    x = tl.load(x_ptr).to(KIND)
    tl.static_assert(KIND == tl.bfloat16)
    if MODE == "fast":
        tl.store(x_ptr, x.to(TO) + 2)
    else:
        tl.store(x_ptr, x.to(TO) + 3)
"""


@pytest.mark.compiler
@pytest.mark.parametrize("rest", ["", ", 'slow', tl.fp32"], ids=["defaults", "given"])
def test_strings_and_types_are_constants(home, rest):
    write_kernel(WORDS)
    made = aot.export("k.py:kernel", f"*fp32:16, tl.bfloat16{rest}", "1", "k", "k", target="sm_90")
    constants = {"KIND": "tl.bf16", "MODE": "'fast'", "TO": "tl.fp16"}
    if rest:
        constants |= {"MODE": "'slow'", "TO": "tl.fp32"}
    assert made.functions[0].constants == constants
    given = ["*fp32:16", "tl.bfloat16", *(["slow", "tl.float32"] if rest else [])]
    assert cubin_of(made) == lower_file("k.py", "kernel", given, "sm_90").cubin
    assert not complaints(made.sources[0], "cc", "-std=c99")


TUPLE = """
@triton.jit
def kernel(x_ptr, TERMS: tl.constexpr, OTHERS: tl.constexpr = (tl.float32, "plus", 3)):
    x = TERMS[0] * tl.program_id(0) + TERMS[1]
    if OTHERS[1] == "plus":
        x += OTHERS[2]
    tl.store(x_ptr, x.to(OTHERS[0]))
"""


def test_a_tuple_is_a_constant(home):
    write_kernel(TUPLE)
    made = aot.export(
        "k.py:kernel", ["*fp32:16, (2, 5)", "*fp32, (1, 2), ( tl.float16 ,'x', 4)"], "1", "k", "k",
        target="sm_90",
    )  # fmt: skip
    first, second = (function.constants for function in made.functions)
    assert first == {"TERMS": "(2, 5)", "OTHERS": "(tl.fp32, 'plus', 3)"}
    assert second == {"TERMS": "(1, 2)", "OTHERS": "(tl.fp16, 'x', 4)"}
    lowered = lower_file("k.py", "kernel", ["*fp32:16", "(2, 5)"], "sm_90")
    assert cubin_of(made) == lowered.cubin
    assert not complaints(made.sources[0], "cc", "-std=c99")


CASTING = """
@triton.jit
def kernel(x_ptr, out_ptr, DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets).to(DTYPE))
"""


def test_a_type_in_the_place_of_a_constant_is_named(home):
    """A type makes a tl.constexpr a flag of run time: if that does not compile, look at it."""
    write_kernel(CASTING)
    words = refused("k.py:kernel", "*fp32, *fp16, fp16, 128", "1", "k", "k")
    assert words.startswith("kernel does not compile: ")
    typed = "a type of run time in the place of a tl.constexpr, DTYPE (fp16): a constant, so give"
    assert f"{typed} its value, or tl.fp16 and the like if that is a type.\nLine 8 of " in words
    wrong = refused(kernels.wrong_kernel, "*fp32, i32, 64", "1", "k", "k")
    assert "in the place of" not in wrong


TUNED = """
@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128}, num_warps=8)], [])
@triton.jit
def kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)
"""


def test_a_configuration_gives_the_constants_at_the_end_and_the_options(home):
    write_kernel(TUNED)
    made = aot.export("k.py:kernel", "*fp32", "1", "k", "k", target="sm_90", config=1)
    assert made.functions[0].constants == {"BLOCK": 128}
    assert made.functions[0].threads == 8 * 32
    words = refused("k.py:kernel", "*fp32", "1", "k", "l", config=2)
    assert words == "config is 2: give the number of a configuration, 0 to 1, or a triton.Config."


def test_configurations_that_differ_in_a_constant_alone_have_names_of_their_own(home):
    write_kernel(TUNED)
    configs = [triton.Config({"BLOCK": block}) for block in (64, 128)]
    made = [
        aot.export("k.py:kernel", "*fp32", "1", "k", "k", target="sm_90", config=config)
        for config in configs
    ]
    assert made[0].functions[0].name != made[1].functions[0].name
    assert made[0].headers[0].exists() and made[0].headers != made[1].headers


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (triton.Config({"BLOCK": 64}, pre_hook=print), "calls a function before each launch"),
        (triton.Config({"BLOCK": 64}, ir_override="k.ttgir"), "replaces the kernel's IR"),
        (triton.Config({"BLOCK": 64}, num_ctas=2), "in clusters of programs"),
        (
            triton.Config({"BLOCKS": 64}),
            "gives BLOCKS, and the kernel's arguments are x_ptr, BLOCK",
        ),
    ],
)
def test_a_configuration_that_does_more_than_its_c_would_is_refused(home, config, says):
    write_kernel(TUNED)
    assert says in refused("k.py:kernel", "*fp32", "1", "k", "k", config=config)


@pytest.mark.parametrize("option", [{"num_warps": 8}, {"num_stages": 1}, {"maxnreg": 32}])
def test_an_option_that_a_configuration_gives_is_not_given_twice(home, option):
    write_kernel(TUNED)
    words = refused("k.py:kernel", "*fp32", "1", "k", "k", config=0, **option)
    assert "A configuration gives num_warps, num_stages and maxnreg: leave out these" in words


GLUON = """
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

@gluon.jit
def kernel(x_ptr, n, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    gl.store(x_ptr + offsets, gl.load(x_ptr + offsets, mask=offsets < n) * 2, mask=offsets < n)
"""


def test_a_kernel_in_gluon_is_exported_as_the_jit_compiles_it(home):
    Path("k.py").write_text(GLUON)
    signature = "*fp32:16, i32, 128"
    made = aot.export("k.py:kernel", signature, GRID, "twice", "twice", target="sm_90")
    of_jit = lower_file("k.py", "kernel", signature.split(", "), "sm_90")
    assert cubin_of(made) == of_jit.cubin
    of_session = InFile.of("k.py", "kernel").load()  # as a session has it
    made = aot.export(of_session, signature, GRID, "again", "again", target="sm_90")
    assert cubin_of(made) == of_jit.cubin


@pytest.mark.parametrize(
    ("case", "option", "words"),
    [
        ("a softmax", {"maxnreg": 24}, "at most 24 registers per thread"),
        ("attention", {"enable_fp_fusion": False}, "without FP fusion"),
    ],
)
def test_options_of_a_launch_reach_the_machine_code_and_have_names_of_their_own(
    case, option, words
):
    """The softmax takes more registers by itself, and attention adds products."""
    kernel, args, options = KERNELS[case]
    asked = {**options, "target": "sm_90"}
    signature = ", ".join(map(str, args))
    plain = aot.export(kernel, signature, "1", "kernel_c", "out/k", **asked)
    made = aot.export(kernel, signature, "1", "kernel_c", "out/k", **asked, **option)
    assert cubin_of(made) == lower(kernel, *args, **asked, **option).cubin != cubin_of(plain)
    assert plain.headers != made.headers and plain.functions[0].name != made.functions[0].name
    assert words in str(made) and words in made.headers[0].read_text() and words not in str(plain)
    assert read_header(made.headers[0]) == Manifest(made.functions)
    variants = [signature, aot.Variant(signature, **option)]
    both = aot.export(kernel, variants, "1", "kernel_c", "both/k", **asked)
    assert both.functions == (*plain.functions, *made.functions)
    assert len(aot.link(both, "linked").algorithms) == 2


MANY = """
@triton.jit
def kernel(ARGUMENTS, BLOCK: tl.constexpr):
    tl.store(p0 + tl.arange(0, BLOCK), 1.0)
"""


@pytest.mark.compiler
def test_hints_that_make_a_files_name_too_long_are_left_out_of_it(home):
    write_kernel(MANY.replace("ARGUMENTS", ", ".join(f"p{i}" for i in range(95))))
    signature = ", ".join([*["*fp32:16"] * 95, "64"])
    made = aot.export("k.py:kernel", signature, "1", "k", "k")
    function = made.functions[0]
    assert made.headers[0].name == f"k.{function.name.split('_')[1]}_.h"
    assert function.name.endswith("_" + "".join(f"{i}d" for i in range(95)))
    fewer = aot.export("k.py:kernel", signature.replace(":16", "", 1), "1", "k", "k")
    assert fewer.headers != made.headers
    aot.build(aot.link([made, fewer], "linked"))


def test_numbers_of_things_are_written_as_one_says_them():
    made = aot.export(kernels.add_kernel, ADD, GRID, "add", "out/add", num_warps=1, num_stages=1)
    for text in (str(made), made.headers[0].read_text(), str(aot.link(made, "linked"))):
        assert "1 warp, 1 stage" in text
        assert not re.search(r"\b1 \w+s\b", text)


def test_a_header_of_another_version_is_refused(home):
    made = aot.export(kernels.add_kernel, ADD, GRID, "add", "out/add")
    text = made.headers[0].read_text()
    manifest = read_header(made.headers[0])
    assert manifest.line in text
    (content,) = asdict(manifest)["functions"]
    without_grid = {name: value for name, value in content.items() if name != "grid"}
    for function in (without_grid, {**content, "arguments": None}, {**content, "more": 1}, None):
        other = json.dumps({"functions": [function], "linked": "", "sources": []})
        digest = hashlib.sha256(other.encode()).hexdigest()[:16]
        made.headers[0].write_text(text.replace(manifest.line, f"{JSON_LINE}{digest} {other}"))
        said = (
            r"add\..*\.h is not what this version of `course aot` writes: export the kernel again"
        )
        for use in (lambda: aot.link(made, "linked"), lambda: aot.build(made)):
            with pytest.raises(CourseError, match=said):
                use()


def test_link_refuses_one_algorithm_with_two_grids_and_to_write_over_a_variant(home):
    wide = aot.export(kernels.add_kernel, ADD, GRID, "add", "a/add")
    narrow = aot.export(kernels.add_kernel, ADD.replace(":16", ""), "n / BLOCK", "add", "b/add")
    said = r"have the grids .* and n / BLOCK, and only what is divisible would choose"
    with pytest.raises(CourseError, match=said):
        aot.link([wide, narrow], "linked")
    absolute = aot.export(kernels.add_kernel, ADD, GRID, "add", home / "c" / "add")
    with pytest.raises(CourseError, match="is a header to link"):
        aot.link(absolute, f"c/{absolute.headers[0].stem}")


def test_folders_that_were_made_for_nothing_are_removed(monkeypatch):
    monkeypatch.setattr(Path, "replace", lambda *_: Path("/dev/full").write_text("x" * 10**6))
    assert "could not be written" in refused(kernels.add_kernel, ADD, GRID, "add", "a/b/c/add")


def test_a_child_that_dies_is_an_error(monkeypatch):
    Path("k.py").write_text("import os; os.kill(os.getpid(), 11)")
    assert "killed by SIGSEGV" in refused("k.py:kernel", "i32", "1", "add", "add")


def test_a_file_that_does_not_end_is_stopped_and_named(monkeypatch):
    monkeypatch.setattr(worker.compile_variants, "timeout_s", 1)
    Path("k.py").write_text("while True: pass")
    words = refused("k.py:kernel", "i32", "1", "add", "add")
    assert re.search(r"stopped after 1 s .*; before it compiles, it executes .*k\.py\.", words)


def test_an_export_takes_a_fraction_of_the_first():
    stop_workers()
    start = computed_s()
    aot.export(kernels.add_kernel, ADD, GRID, "add", "out/add")
    first = computed_s()
    aot.export(kernels.add_kernel, ADD, GRID, "add", "out/add")
    assert computed_s() - first < (first - start) / 4


# The command line


def run(*arguments):
    return CliRunner().invoke(app, ["aot", *arguments])


@pytest.mark.compiler
def test_the_flags_are_those_of_tritons_own_tool(home):
    grid = "(n + 1023) / 1024, 1, 1"
    flags = shlex.split("-n add_kernel -o aot/fp32/add --output-name add -w 4 -ns 1 -g")
    flags.append(grid)
    ended = run("compile", FILE, *flags, "-s", ADD, "-t", "cuda:90:32")
    assert ended.exit_code == 0, ended.output
    long = shlex.split("--kernel-name add_kernel --out-path aot/fp32/add --out-name add")
    long += shlex.split("--num-warps 4 --num-stages 1 --target sm_90")
    long += ["--grid", grid, "--signature", ADD.replace(":16", "")]
    ended = run("compile", FILE, *long)
    assert ended.exit_code == 0, ended.output
    headers = sorted(map(str, Path("aot/fp32").glob("*.h")))
    assert len(headers) == 2
    options = ["--maxnreg", "64", "--no-fp-fusion"]
    ended = run("compile", FILE, *flags, "-s", ADD, "-t", "sm_90", *options)
    assert "at most 64 registers per thread, without FP fusion" in " ".join(ended.output.split())
    ended = run("link", *headers, "-o", "aot/add")
    assert "1 algorithm, aot/add.h" in ended.output
    ended = run("build", "aot/add.h")
    assert ended.output == "aot/add.so\n"
    ended = run("compile", FILE, *flags, "-s", ADD)  # for sm_90 if there is no GPU
    assert ended.exit_code == 0


def test_the_help_says_that_the_file_is_executed():
    assert "Executes FILE as Python" in " ".join(run("compile", "--help").output.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "/tmp/x"], "is absolute"),
        (["-o", "../x"], "leaves its folder"),
        (["--out-name", "a;b"], "cannot name"),
        (["--out-name", ""], "cannot name"),
        (["-g", "1,2,3,4"], "4 parts"),
    ],
)
def test_a_shell_has_the_same_refusals(arguments, words, home):
    ended = run("compile", FILE, "-n", "add_kernel", "-s", ADD, "-g", "1", *arguments)
    assert isinstance(ended.exception, CourseError)
    assert words in str(ended.exception)
    assert list(home.iterdir()) == []


def test_in_a_shell_an_error_is_one_sentence(home):
    flags = ["-n", "add_kernel", "-s", "i32", "-g", "1", "-o", "/x"]
    command = [sys.executable, "-m", "course", "aot", "compile", FILE, *flags]
    environ = {**os.environ, "PYTHONPATH": python_path()}
    ended = subprocess.run(command, capture_output=True, text=True, env=environ)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert re.fullmatch(r"course: The output '/x' is absolute: .*\.\n", ended.stderr)
    assert list(home.iterdir()) == []


# What makes a function slow

ADD_FILE = f"{ROOT}/kernels/vector_add.py:add_kernel"
ADD_GRID = "cdiv(n_elements, BLOCK_SIZE)"
WIDE, NARROW = "*fp32:16, *fp32:16, *fp32:16, i32:16, 1024", "*fp32, *fp32, *fp32, i32, 1024"


def exported_add(*signatures):
    return aot.export(ADD_FILE, list(signatures), ADD_GRID, "add", "out/add", target="sm_90")


def test_loads_that_a_promise_would_widen_are_reported_with_the_arguments_name():
    made = exported_add(WIDE.replace("i32:16", "i32"))
    (warning,) = made.warnings
    assert (
        "loads 4 bytes at a time, and would load 16 if the signature promised n_elements:16"
        in warning
    )
    shown = " ".join(str(made).split())
    assert f"Warning: {warning}" in shown and "loads of 4 bytes" in shown


def test_a_stride_that_would_have_to_be_1_is_reported_so():
    gelu = f"{ROOT}/kernels/bias_gelu.py:bias_gelu_kernel"
    signature = "*fp16:16, *fp16:16, *fp16:16, i32, i32:16, i32:16, i32, 4, 1024"
    made = aot.export(gelu, signature, "n_rows", "gelu", "out/gelu", target="sm_90")
    assert "would load 16 if the signature promised stride_xn:1: promise" in made.warnings[0]


def test_a_variant_for_the_calls_that_a_wide_one_refuses_is_not_reported():
    made = exported_add(WIDE, NARROW)
    assert made.warnings == () and [each.load_bytes for each in made.functions] == [(16,), (4,)]


def test_two_variants_that_both_lack_a_promise_are_reported():
    made = exported_add(NARROW, WIDE.replace("i32:16", "i32"))
    assert [warning.split()[-1] for warning in made.warnings] == ["call."] * 2
    assert "x_ptr:16, y_ptr:16, n_elements:16" in made.warnings[0]


def test_narrow_loads_that_no_promise_widens_are_not_reported():
    """128 elements are one for each of 128 threads."""
    assert exported_add(NARROW.replace("1024", "128")).warnings == ()


def test_spills_are_reported_in_bytes_of_stack():
    made = exported_add(WIDE.replace("1024", "32768"))
    (function,), (warning,) = made.functions, made.warnings
    assert function.stack_bytes > 0
    assert f"a thread keeps {function.stack_bytes:,} bytes in memory" in warning
    assert read_header(made.headers[0]).functions == made.functions


PRINTS = """
@triton.jit
def kernel(x_ptr):
    tl.device_print("x", tl.load(x_ptr))
"""


def test_what_a_kernel_prints_is_no_spill(home):
    write_kernel(PRINTS)
    made = aot.export("k.py:kernel", "*i32", "1", "k", "k", target="sm_90")
    assert made.functions[0].stack_bytes > 0 and made.warnings == ()


SINES = """
@triton.jit
def kernel(x_ptr):
    tl.store(x_ptr, tl.sin(tl.load(x_ptr)))
"""


def test_an_array_that_a_function_keeps_on_the_stack_is_no_spill(home):
    write_kernel(SINES)
    made = aot.export("k.py:kernel", "*fp64", "1", "k", "k", target="sm_90")
    assert made.functions[0].stack_bytes > 0 and made.warnings == ()
