"""Signatures, grids and names: what is read, and that everything else is refused in a sentence."""

import contextlib
import fractions
import itertools
import math
import random
import re
import subprocess
from pathlib import Path

import pytest
import torch
import triton.language as tl

from course.aot.abi import converter, scalar_of
from course.aot.c.templates import GRID
from course.aot.grid import MOST_CHARACTERS, MOST_DEEP, check_launchable, parse_grid
from course.aot.identifiers import KEYWORDS, OWN, check_name, parameter_names
from course.aot.output_files import check_out
from course.aot.signature import Argument, constants_of, parse_signature, value_of
from course.errors import CourseError
from tests.support.aot_files import STRICT, complaints


def refused(function, *args):
    """The sentence with which a function refuses."""
    with pytest.raises(CourseError) as caught:
        function(*args)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    return str(caught.value)


# Signatures

INTEGER_TYPES = ("int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def test_a_signature_is_types_hints_and_constants():
    text = "*fp16:16, fp32, i32:16, i64:1, i1, *kfp8e5, 64, 0.5, True, None"
    assert parse_signature(text).arguments == (
        *(Argument("", "*fp16", 16), Argument("", "fp32"), Argument("", "i32", 16)),
        *(Argument("", "i64", 1, 1), Argument("", "i1"), Argument("", "*kfp8e5")),
        *(Argument("", value=value) for value in (64, 0.5, True, None)),
    )
    passed = [argument.passed for argument in parse_signature(text).arguments]
    assert passed == [True, True, True, False, True, True, *[False] * 4]


def test_spaces_around_a_hints_colon_mean_nothing():
    spaced, plain = parse_signature("*fp16 : 16,i32: 1"), parse_signature("*fp16:16, i32:1")
    assert spaced.arguments == plain.arguments


@pytest.mark.parametrize(
    ("text", "value", "given"),
    [
        ("(64)", 64, 64),
        ("(64,)", "(64,)", (64,)),
        ("0x40", 64, 64),
        ("-0x40", -64, -64),
        *((f"tl.{name}", f"tl.{name}", getattr(tl, name)) for name in INTEGER_TYPES),
        ("tl.float16", "tl.fp16", tl.float16),
        ("(tl.int32, 2)", "(tl.int32, 2)", (tl.int32, 2)),
    ],
)
def test_a_constant_is_what_python_and_triton_would_read(text, value, given):
    (argument,) = parse_signature(text).arguments
    assert (argument.value, value_of(argument.value)) == (value, given)
    assert constants_of({"x": given}) == {"x": value}


def test_a_signature_may_have_no_parts():
    assert parse_signature(" ").bind([], "kernel") == ()
    words = refused(parse_signature("").bind, ["x"], "kernel")
    assert words == "The signature has 0 parts, and kernel takes 1 argument: x."


def test_names_come_from_the_kernel_and_their_number_must_fit():
    signature = parse_signature("*fp32, i32")
    assert [each.name for each in signature.bind(["x", "n"], "add_kernel")] == ["x", "n"]
    words = refused(signature.bind, ["x", "n", "BLOCK"], "add_kernel")
    assert words == "The signature has 2 parts, and add_kernel takes 3 arguments: x, n, BLOCK."


def test_the_last_arguments_may_be_left_to_their_defaults():
    names, defaults = ["x", "BLOCK", "EXACT"], {"BLOCK": 64, "EXACT": False}
    left = parse_signature("*fp32").bind(names, "kernel", defaults)
    assert [(each.name, each.value, each.constant) for each in left[1:]] == [
        ("BLOCK", 64, True),
        ("EXACT", False, True),
    ]
    assert parse_signature("*fp32, 32").bind(names, "kernel", defaults)[1].value == 32
    with pytest.raises(CourseError, match="takes 3 arguments: x, BLOCK, EXACT"):
        parse_signature("*fp32").bind(names, "kernel", {"BLOCK": 64})
    with pytest.raises(CourseError, match="has 4 parts"):
        parse_signature("*fp32, 1, 2, 3").bind(names, "kernel", defaults)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("*fp32, float", "Part 2 of the signature, 'float', has PyTorch's name of a type"),
        ("*fp32, float", "of a type: write fp32, or tl.fp32 if the type itself is a constant."),
        ("*f32", "Part 1 of the signature, '*f32', is neither a type nor a number"),
        ("*f32", "nor a number: the types are i1, "),
        ("*kfloat16:16", "write *kfp16."),
        ("i32:8", "has the hint '8': a hint is :16"),
        ("i32:", "has the hint ''"),
        ("fp32:16", "only pointers and integers may: write fp32"),
        ("i1:1", "only pointers and integers may: write i1"),
        ("*fp32:1", "a pointer's hint is :16"),
        ("64:16", "'64:16'"),
        ("i32,,i32", "Part 2 of the signature is empty"),
        ("*i32, 64)", "The signature '*i32, 64)' has a bracket without its other half."),
        ("*u1", "and pointers * to these but u1, and to fp8e4nv"),
        ("int32", "write i32, or tl.int32 if the type itself is a constant."),
        ("uint8", "write u8, or tl.uint8 if the type itself is a constant."),
        ("tl.i32", "a type as tl.fp16 or tl.int32"),
        ("tensordesc<fp16[64, 64]>, i32", "tensor descriptor"),
        ("fp8e5", "'fp8e5'"),
        ("٣", "'٣'"),
        (str(2**63), "is neither a type nor a number"),
        ("x" * 1000, "…"),
        ("1;system", "'1;system'"),
    ],
)  # fmt: skip
def test_what_is_no_signature_is_named(text, words):
    assert words in refused(parse_signature, text)


# Grids

ARGUMENTS = parse_signature("*fp32, i32, u64, 128, i32:1, fp32, 0.5, i32").bind(
    ["x", "n", "huge", "BLOCK", "one", "scale", "half", "größe"], "kernel"
)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("n", "n, 1, 1"),
        ("(n + 127) / 128, n * n, 1", "((n + 127) / 128), (n * n), 1"),
        ("cdiv(n, BLOCK)", "cdiv(n, BLOCK), 1, 1"),
        ("n - 1 - 1", "((n - 1) - 1), 1, 1"),
        ("n + n * n % BLOCK", "(n + ((n * n) % BLOCK)), 1, 1"),
        ("one, größe", "one, größe, 1"),
        ("cdiv(cdiv(n,2) , (3))", "cdiv(cdiv(n, 2), 3), 1, 1"),
    ],
)
def test_a_grid_is_arithmetic_over_integers(text, means):
    assert str(parse_grid(text, ARGUMENTS)) == means


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('1; system("id");', "not understood at ';' at character 2"),
        ("1, 2, 3, 4", "The grid has 4 parts"),
        ("", "not understood at the end: a number, a name or a bracket was expected"),
        ("n,", "at the end"),
        ("m", "no argument of that name; its integers are n, huge, BLOCK, one, größe"),
        ("x", "this is no integer"),
        ("scale", "this is no integer"),
        ("half", "this is no integer"),
        ("n +", "at the end"),
        ("-1", "'-' at character 1"),
        ("(n", "')' was expected"),
        ("n)", "')' at character 2"),
        ("n n", "'n' at character 3"),
        ("0x10", "'x10' at character 2"),
        ("1.5", "'.' at character 2"),
        ("cdiv(n)", "cdiv takes two numbers, as in cdiv(n, 128)"),
        ("cdiv", "'(' was expected"),
        ("n ** 2", "'*' at character 4"),
        ("n / * n", "'*' at character 5"),
        ("sizeof(n)", "cdiv, as in cdiv(n, 128), is the only function"),
        ("triton.cdiv(n, 2)", "at 'triton' at character 1: cdiv, as in"),
        ("n // 2", "'/' at character 4: write / alone, which rounds down here"),
        ("cdiv(-n, 2)", "'-' at character 6: no sign stands before a number"),
        (str(2**63), "larger than 64 bits"),
        ("9" * 300, "larger than 64 bits"),
        ("(" * (MOST_DEEP + 2), f"more than {MOST_DEEP} brackets"),
        ("1+" * MOST_CHARACTERS, "characters, and may have"),
        ("n\\", "'\\\\' at character 2"),
        ("n /* */", "'*' at character 4"),
        ("n\0", "at character 2"),
    ],
)
def test_anything_else_in_a_grid_is_refused_with_its_place(text, words):
    assert words in refused(parse_grid, text, ARGUMENTS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2147483648", "has 2,147,483,648 programs along x, whatever it is called with, and must"),
        ("2147483648", "must have 1 to 2,147,483,647"),
        (
            "n, 65536",
            "65,536 programs along y, whatever it is called with, and must have 1 to 65,535",
        ),
        ("n, 1, BLOCK - BLOCK", "has 0 programs along z"),
        ("(3 - 10) / 2 + 3", "has 0 programs along x"),  # C rounds towards 0
        ("n / (one - 1)", "divides by 0 in (n / (one - 1))"),
        ("n + cdiv(n, 0)", "divides by 0 in cdiv(n, 0)"),
        ("cdiv(n, 3 - 5)", "rounds up a negative number in cdiv(n, (3 - 5))"),
        ("cdiv(0 - 5, 0 - 2)", "rounds up a negative number"),
        ("9223372036854775807 * 2 % 2 + 1", "goes beyond 64 bits in (9223372036854775807 * 2)"),
    ],
)
def test_a_grid_that_never_launches_is_refused(text, words):
    assert words in refused(check_launchable, parse_grid(text, ARGUMENTS))


@pytest.mark.parametrize(
    "text", ["n", "2147483647, 65535, 65535", "n - n", "n / n, (0 - 7) % 4 + 4", "cdiv(7, 2) - 3"]
)
def test_a_grid_that_may_launch_is_not(text):
    check_launchable(parse_grid(text, ARGUMENTS))


def test_a_longest_grid_is_read_and_written():
    text = "+".join(["1"] * (MOST_CHARACTERS // 2))
    assert parse_grid(text, ARGUMENTS).x.c.count("grid_add") == MOST_CHARACTERS // 2 - 1


def python_value(text, values):
    """A grid's size as Python computes it; None if it has no result that 64 bits hold."""

    def checked(value):
        if not -(2**63) <= value < 2**63:
            raise OverflowError
        return value

    class Checked(int):
        def __add__(self, other):
            return Checked(checked(int(self) + int(other)))

        def __sub__(self, other):
            return Checked(checked(int(self) - int(other)))

        def __mul__(self, other):
            return Checked(checked(int(self) * int(other)))

        def __truediv__(self, other):
            quotient = abs(int(self)) // abs(int(other))
            return Checked(checked(quotient if (self < 0) == (other < 0) else -quotient))

        def __mod__(self, other):
            return Checked(int(self) - int(self / other) * int(other))

    def cdiv(a, b):
        if a < 0 or b <= 0:
            raise OverflowError
        return Checked(-(-int(a) // int(b)))

    names = {name: Checked(value) for name, value in values.items()}
    try:
        if any(each >= 2**63 for name, each in values.items() if re.search(rf"\b{name}\b", text)):
            return None
        checked_text = re.sub(r"\b(\d+)\b", r"Checked(\1)", text)
        return int(eval(checked_text, {**names, "cdiv": cdiv, "Checked": Checked}))
    except (OverflowError, ZeroDivisionError):
        return None


def random_tree(chance, depth=0):
    kind = chance.random()
    if depth > 4 or kind < 0.3:
        leaves = ["n", "huge", "BLOCK", "0", "1", "127", str(2**62), str(chance.randrange(10**6))]
        return chance.choice(leaves)
    left, sign = random_tree(chance, depth + 1), chance.choice("+-*/%")
    right = random_tree(chance, depth + 1)
    return f"cdiv({left}, {right})" if kind < 0.4 else f"({left} {sign} {right})"


@pytest.mark.compiler
def test_the_c_of_grids_computes_what_python_does(tmp_path):
    """300 grids at 6 values each, in one program; a step without a result is found."""
    chance = random.Random(7)
    trees = (random_tree(chance) for _ in range(500))
    texts = [text for text in trees if len(text) <= MOST_CHARACTERS][:300]
    functions, calls = [], []
    values = [(0, 0), (1, 1), (-5, 2**63), (2**31 - 1, 2**64 - 1), (-(2**31), 7), (98432, 2**62)]
    for number, text in enumerate(texts):
        expression = parse_grid(text, ARGUMENTS).x.c
        functions.append(
            f"static void g{number}(int32_t n, uint64_t huge) {{\n"
            f"int bad = 0; int64_t size = {expression}; (void)n; (void)huge;\n"
            'if (bad) puts("None"); else printf("%lld\\n", (long long)size); }'
        )
        calls += [
            f"g{number}({n if n > -(2**31) else '-2147483647-1'}, {huge}ull);" for n, huge in values
        ]
    includes = ["#include <stdint.h>", "#include <stdio.h>", *GRID.values()]
    lines = [*includes, *functions, "int main(void) {", *calls, "}"]
    program = tmp_path / "grids"
    program.with_suffix(".c").write_text("\n".join(lines))
    sanitize = ["-fsanitize=undefined", "-fno-sanitize-recover"]
    command = ["gcc", "-std=c99", *STRICT, *sanitize, f"{program}.c", "-o", str(program)]
    subprocess.run(command, check=True)
    ended = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    said = ended.stdout.split()
    expected = [
        str(python_value(text, {"n": n, "huge": huge, "BLOCK": 128}))
        for text in texts
        for n, huge in values
    ]
    assert said == expected
    assert expected.count("None") > 100


# Names and paths

GRID_C = sorted(set(re.findall(r"\bgrid_\w+", "\n".join(GRID.values()))))
"""What the C that computes a grid is called."""


@pytest.mark.parametrize(
    "name",
    [
        "add", "_fwd_kernel", "fmha_d64_fp16", "A", "cu_seqlens", "cumsum", "grid_sample",
        "algorithm_a", "bf16_add", "softmax_t", "is_finite", "uint_add",
    ],
)  # fmt: skip
def test_an_identifier_is_a_name(name):
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "", "1x", "a-b", "a b", "größe", "a;", "a\n", "int", "class", "cuInit", "main", "exp",
        "read", "__x", "_X", "x" * 101, "bits_x", "bf16_bits", "algorithm_2", "grid_z", *GRID_C,
        "isfinite", "isnormal", "islessequal", "signbit", "alloca", "va_copy", "FD_SET", "FILE",
        "uint", "ulong", "u_char", "size_t", "ssize_t", "time_t", "FLT_MAX", "LONG_MIN",
    ],
)  # fmt: skip
def test_what_names_no_c_function_is_refused(name):
    assert re.search("cannot name|means something|characters", refused(check_name, name))


@pytest.mark.parametrize("out", ["a/b", "add", "aot/fp16/x.y", "./x", "a+b-c"])
def test_a_path_below_the_folder_is_taken(out):
    check_out(out)


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("../x", "leaves its folder"),
        ("a/../x", "leaves its folder"),
        ("/tmp/x", "is absolute"),
        ("~/x", "begins with '~'"),
        ("", "name of a file"),
        ("a/", "is a folder"),
        ("..", "leaves its folder"),
        ('a"b', "name of a file"),
        ("a\nb", "cannot be printed"),
        ("-x", "name of a file"),
        (".x", "name of a file"),
        ("x" * 200, "name of a file"),
    ],
)
def test_other_paths_are_refused(out, words):
    assert words in refused(check_out, out)


def test_a_path_that_the_system_cannot_follow_is_refused(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("loop").symlink_to("loop")
    assert "loop/k could not be looked at (Too many" in refused(check_out, "loop/k")
    assert "could not be looked at (File name too long)" in refused(check_out, f"{'n' * 256}/k")
    (tmp_path / "here" / "loop").unlink()
    (tmp_path / "here").rmdir()
    assert "could not be looked at (No such file" in refused(check_out, "k")


def test_an_absolute_path_is_taken_where_it_was_meant(tmp_path):
    assert check_out(tmp_path / "x") == tmp_path / "x"
    assert "leaves its folder" in refused(check_out, tmp_path / ".." / "x")


def test_parameters_are_called_what_c_takes():
    names = ["x", "int", "stream", "größe", "arg_int", "_x", "_X", "NULL"]
    in_c = list(parameter_names(names).values())
    assert in_c[:4] == ["x", "arg_int", "arg_stream", "gru00f6u00dfe"]
    assert in_c[4:] == ["arg_int_", "_x", "arg_X", "arg_NULL"]
    assert not (KEYWORDS | OWN) & set(in_c)


# Whatever comes in


def test_ten_thousand_texts_are_read_or_refused():
    chance = random.Random(11)
    pieces = [*"nx(),+-*/%1;é ", "BLOCK", "huge", "cdiv(", "128"]
    pieces += ['"', "\\", "\n", "\0", "\ud800", "🙂", "i32", "*fp16", ":16", ":1", "fp32", "0.5"]
    pieces += ["nan", "..", "/*", "*/", "??/", "int", "lambda ", " if ", "[", "]", "=", "**"]

    def read_grid(text):
        return parse_grid(text, ARGUMENTS)

    accepted = 0
    for _ in range(10_000):
        text = "".join(chance.choice(pieces) for _ in range(chance.randrange(1, 12)))
        for function in (read_grid, parse_signature, check_name, check_out):
            try:
                function(text)
                accepted += function is read_grid
            except CourseError as error:
                assert "\n" not in str(error) and "\0" not in str(error)
                str(error).encode()
    assert 100 < accepted < 10_000


@pytest.mark.compiler
def test_accepted_grids_and_names_compile(tmp_path):
    """A sample, as functions of whole translation units."""
    chance = random.Random(3)
    rows = ["#include <cuda.h>", "#include <stdint.h>", *GRID.values()]
    names = []
    while len(names) < 200:
        letters = (chance.choice("abcdefgijnotu_ABCXYZ0189") for _ in range(chance.randrange(1, 6)))
        with contextlib.suppress(CourseError):
            names.append(check_name("".join(letters)))
    others = ("asm_", "grid_sample", "grid_min", "I", "cu", "near", "small", "min", "max", "x86")
    for number, name in enumerate(sorted({*names, *others})):
        grid = parse_grid(random_tree(chance), (Argument("n", ARGUMENTS[1].type), *ARGUMENTS[2:4]))
        rows.append(f"int64_t {name}(int32_t n, uint64_t huge);")
        size = grid.x.c
        body = f"int bad = 0; (void)n; (void)huge; return {size} + bad + {number};"
        rows.append(f"int64_t {name}(int32_t n, uint64_t huge) {{ {body} }}")
    (tmp_path / "names.c").write_text("\n".join(rows))
    assert complaints(tmp_path / "names.c", "gcc", "-std=c99") == ""


# Values


@pytest.mark.parametrize(("type", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)])
def test_a_number_is_rounded_to_16_bits_once(type, dtype):
    """A little above a tie between two neighbors, by less than float32 has: the upper one, from a
    double. PyTorch goes by float32, which makes a tie of it again, so each neighbor is compared
    with the exact distance."""
    convert = converter("x", scalar_of(type))
    numbers = torch.arange(2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    finite = numbers[torch.isfinite(numbers)].double().tolist()
    for low, high in list(itertools.pairwise(finite))[::5]:
        above = math.nextafter((low + high) / 2, math.inf)
        below = math.nextafter((low + high) / 2, -math.inf)
        for number in (low, above, below, -above):
            exact = fractions.Fraction(number)
            distances = {abs(fractions.Fraction(x) - exact): x for x in _neighbors(number, dtype)}
            assert convert(number) == distances[min(distances)], number


def _neighbors(number, dtype):
    """The number that PyTorch rounds to, and those beside it."""
    bits = torch.tensor(abs(number), dtype=torch.float64).to(dtype).view(torch.int16).item()
    sign = math.copysign(1, number)
    return [
        sign * torch.tensor([max(0, bits + step)], dtype=torch.int16).view(dtype).double().item()
        for step in (-1, 0, 1)
    ]


@pytest.mark.parametrize(
    ("type", "number"),
    [("fp16", 70_000.0), ("fp16", 65_520), ("bf16", 3.4e38), ("fp32", 3.5e38), ("fp64", 10**400)],
)
def test_a_number_that_a_type_does_not_hold_is_refused(type, number):
    assert f"which {type} does not hold" in refused(converter("x", scalar_of(type)), number)


@pytest.mark.parametrize("type", ["fp16", "bf16", "fp32", "fp64"])
def test_infinity_zero_and_nan_stay(type):
    convert = converter("x", scalar_of(type))
    values = [math.inf, -math.inf, 0.0, 0, 1]
    assert [convert(value) for value in values] == values
    assert math.isnan(convert(math.nan)) and math.copysign(1, convert(-0.0)) == -1


HEADERS_DEFINE = (
    "TIMER_ABSTIME CSIGNAL WNOHANG INT8_WIDTH FD_SETSIZE "
    "EOF errno NAN I RAND_MAX LITTLE_ENDIAN CLOCK_REALTIME M_PI EXIT_SUCCESS SIZE_MAX PTRDIFF_MIN "
    "SIG_ATOMIC_MAX WCHAR_MIN WINT_MAX MB_CUR_MAX SCHED_FIFO CLOCKS_PER_SEC FLT_EPSILON DBL_DIG "
    "LDBL_MAX CHAR_BIT LONG_MAX FP_NAN HUGE_VALL"
)


@pytest.mark.parametrize("name", HEADERS_DEFINE.split())
def test_what_headers_define_names_no_parameter(name):
    assert parameter_names([name])[name] == f"arg_{name}"


def test_in_a_grid_a_bool_is_0_or_1_and_the_least_integer_is_written_so_that_c_takes_it():
    arguments = [Argument("flag", "i1"), Argument("LO", value=-(2**63))]
    grid = parse_grid("flag * 2 + 1, LO + 1", arguments)
    assert "(flag != 0)" in grid.x.c and "INT64_MIN" in grid.y.c
