"""The pages beside the lessons say what Triton and the course say."""

import ast
import json
import os
import re
import sys
from pathlib import Path
from typing import get_args

import pytest
import triton
import triton.language as tl
from triton.runtime.jit import JITFunction

from course.exercises.result import Verdict
from course.lessons.order import lesson_sources
from course.lessons.without_solutions import solved
from tests.support.processes import run

PAGES = Path(__file__).parents[2] / "docs" / "pages"
ERRORS = (PAGES / "errors.md").read_text(encoding="utf-8")
SHEET = (PAGES / "cheat-sheet.md").read_text(encoding="utf-8")

BLOCK = "    offsets = tl.arange(0, 8)\n    x = tl.load(x_ptr + offsets)\n"
COMPILED = {
    "Boolean value of Tensor with more than one value is ambiguous": [
        BLOCK + "    if offsets < n:\n        tl.store(x_ptr + offsets, x)"
    ],
    "Cannot access global variable SCALE from within @jit'ed function": [
        "    tl.store(x_ptr, SCALE)"
    ],
    "arange's range must be a power of 2": ["    tl.store(x_ptr + tl.arange(0, 6), 1.0)"],
    "arange's arguments must be of type tl.constexpr": [
        "    tl.store(x_ptr + tl.arange(0, n), 1.0)"
    ],
    "Shape element 0 must have type": ["    tl.store(x_ptr, tl.sum(tl.zeros([n], tl.float32)))"],
    "Loop-carried variable acc has initial type int32 but is re-assigned to fp32 in loop": [
        "    acc = 0\n    for i in range(n):\n        acc += 1.0\n    tl.store(x_ptr, acc)"
    ],
    "unsupported AST node type: Break": [
        "    for i in range(n):\n        tl.store(x_ptr + i, 1.0)\n        break"
    ],
    "only tuple comprehensions are supported": [
        "    parts = [tl.load(x_ptr + i) for i in range(4)]\n    tl.store(x_ptr, parts[0])"
    ],
    "y is not defined": ["    if n > 3:\n        y = 1.0\n    tl.store(x_ptr, y)"],
    "Cannot make_shape_compatible: incompatible dimensions at index 0: 4 and 8": [
        BLOCK + "    tl.store(x_ptr + offsets, tl.arange(0, 4) + x)"
    ],
    "Value argument cannot be block type if pointer argument is not a block": [
        BLOCK + "    tl.store(x_ptr, x)"
    ],
    "Mask argument cannot be block type if pointer argument is not a block": [
        BLOCK + "    tl.store(x_ptr, 1.0, mask=offsets < n)"
    ],
    "unsupported tensor index: constexpr[0]": [
        BLOCK + "    tl.store(x_ptr, x[0])",
        "    tl.store(x_ptr, x_ptr[0])",
    ],
    "__setitem__ is not supported in triton": [BLOCK + "    x[0] = 1.0"],
    "invalid operands of type pointer<fp32> and triton.language.int32": [
        "    tl.store(x_ptr, x_ptr * 2)"
    ],
    "invalid operands of type pointer<fp32> and triton.language.float32": [
        "    tl.store(x_ptr + n / 2, 1.0)"
    ],
    "Unsupported function referenced": [
        "    tl.store(x_ptr, torch.exp(tl.load(x_ptr)))",
        "    tl.store(x_ptr, helper(tl.load(x_ptr)))",
    ],
    "AST binary operator 'MatMult' is not (currently) implemented.": [
        BLOCK + "    tl.store(x_ptr + offsets, x @ x)"
    ],
    "invalid axis 1. Expected -1 <= axis < 1": [BLOCK + "    tl.store(x_ptr, tl.max(x, axis=1))"],
    "numel (2097152) exceeds triton maximum tensor numel (1048576)": [
        "    tl.store(x_ptr + tl.arange(0, 2097152), 1.0)"
    ],
    "Block pointers have been removed in favor of the tensor descriptor API": [
        "    tl.load(tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (8,), (0,)))"
    ],
    "error encountered during parsing": [
        "    tl.store(x_ptr, tl.sqrt(2))",
        BLOCK + "    while x > 0:\n        x -= 1\n    tl.store(x_ptr + offsets, x)",
    ],
    "PassManager::run failed": ["    return tl.load(x_ptr)"],
}
"""Each error that the page quotes, and kernels that the compiler refuses with it."""
INTERPRETED = {
    "'int' object is not iterable": [BLOCK + "    tl.store(x_ptr, x[0])"],
    "'tensor' object does not support item assignment": [BLOCK + "    x[0] = 1.0"],
    "must be Tensor, not tensor": ["    tl.store(x_ptr, torch.exp(tl.load(x_ptr)))"],
    "numpy data itemsize (64 bits) exceeds dtype primitive_bitwidth": [
        "    tl.store(x_ptr, tl.sqrt(2))"
    ],
}
IN_THE_SOURCE = {
    "object of type 'int' has no len()": None,  # Python's own
    "Cannot call @triton.jit'd outside of the scope of a kernel": None,  # begins in the middle
    "Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)": "cpu tensor?",
    "out of resource: shared memory": "out of resource: ",
    "an illegal memory access was encountered": None,  # CUDA's own
    "0 active drivers ([]). There should only be one.": "active drivers (",
}
"""What needs a GPU or no kernel at all, with words that Triton's Python source has of it."""

HEAD = """import torch
import triton
import triton.language as tl

SCALE = 2.0


def helper(x):
    return 2 * x

"""
CHILD = """
import json, sys, torch, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
sys.path.insert(0, sys.argv[1])
import kernels_of_the_page as page

def words(error):
    while error is not None:
        yield str(getattr(error, "error_message", None) or error)
        error = error.__cause__

said = []
for i in range(int(sys.argv[2])):
    kernel = getattr(page, f"kernel_{i}")
    try:
        if sys.argv[3].startswith("interpret"):
            grid = 8 if sys.argv[3].endswith("8") else (1,)
            kernel[grid](torch.ones(64), 4)
        else:
            source = ASTSource(kernel, {"x_ptr": "*fp32", "n": "i32"}, {})
            triton.compile(source, target=GPUTarget("cuda", 90, 32))
        said.append("it is accepted")
    except Exception as error:
        said.append(" | ".join(words(error)))
print(json.dumps(said))
"""


def quoted() -> list[str]:
    """The errors that the page has, by their headings."""
    return re.findall(r"^### `(.+)`$", ERRORS, re.MULTILINE)


def said_of(kernels: list[str], how: str, folder: Path) -> list[str]:
    """What Triton says of each kernel: its body's text."""
    text = HEAD + "\n\n".join(
        f"@triton.jit\ndef kernel_{i}(x_ptr, n):\n{body}\n" for i, body in enumerate(kernels)
    )
    (folder / "kernels_of_the_page.py").write_text(text)
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    if how.startswith("interpret"):
        environment["TRITON_INTERPRET"] = "1"
    arguments = (str(folder), str(len(kernels)), how)
    child = run(sys.executable, "-c", CHILD, *arguments, env=environment, check=True)
    return json.loads(child.stdout.strip().splitlines()[-1])


def test_every_error_on_the_page_has_a_kernel_or_a_source_that_says_it():
    assert quoted() == [*COMPILED, *INTERPRETED, *IN_THE_SOURCE]


@pytest.mark.skipif(triton.__version__ != "3.9.0", reason="needs Triton 3.9: the page quotes it")
@pytest.mark.parametrize(("how", "errors"), [("compile", COMPILED), ("interpret", INTERPRETED)])
def test_the_errors_on_the_page_are_those_that_triton_raises(how, errors, tmp_path):
    kernels = [(words, body) for words, bodies in errors.items() for body in bodies]
    said = said_of([body for _, body in kernels], how, tmp_path)
    wrong = {
        body: text for (words, body), text in zip(kernels, said, strict=True) if words not in text
    }
    assert not wrong


@pytest.mark.parametrize("words", [words for words in IN_THE_SOURCE.values() if words])
def test_an_error_that_needs_a_gpu_is_quoted_from_the_source(words):
    folder = Path(triton.__file__).parent
    files = [*folder.glob("runtime/*.py"), *folder.glob("backends/nvidia/driver.*")]
    assert any(words in path.read_text(encoding="utf-8") for path in files)


def test_a_launch_with_a_number_for_a_grid_is_quoted_as_it_fails(tmp_path):
    (said,) = said_of(["    tl.store(x_ptr, 1.0)"], "interpret, grid 8", tmp_path)
    assert "object of type 'int' has no len()" in said


def test_a_launch_without_a_grid_is_quoted_as_it_fails():
    with pytest.raises(RuntimeError) as no_grid:
        JITFunction(said_of)()
    assert "Cannot call @triton.jit'd outside of the scope of a kernel" in str(no_grid.value)


def test_the_page_explains_every_verdict():
    rows = re.findall(
        r"^\| ([a-z][A-Za-z ]+) \|", ERRORS.split("## What `check` says")[1], re.MULTILINE
    )
    assert sorted(row for row in rows if row != "verdict") == sorted(get_args(Verdict))


def test_the_cheat_sheet_names_what_triton_has_and_lessons_use():
    lessons = "".join(path.read_text(encoding="utf-8") for path in lesson_sources())
    names = set(re.findall(r"\btl\.([a-z_0-9]+)", SHEET))
    assert [name for name in sorted(names) if not hasattr(tl, name)] == []
    assert [name for name in sorted(names) if f"tl.{name}" not in lessons] == []


def test_the_cheat_sheets_programs_parse():
    programs = re.findall(r"```python\n(.+?)```", SHEET, re.DOTALL)
    assert programs
    for program in programs:
        ast.parse(program)


FURNITURE = re.compile(
    r"Predict|[a-f]$|Together, an|Are you|Do you|By the end|Next|On other|You need|Two |What you"
)
"""What is bold in lessons and no term."""


def glossary() -> dict[str, str]:
    """The lesson that introduces each term of the glossary."""
    text = (PAGES / "glossary.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^- \*\*(.+?)\*\* \(([a-z-]+)\): ", text, re.MULTILINE))


def set_off(lesson: str, by: str) -> set[str]:
    """What a lesson's text has in bold (by `**`), or in bold and italics (by `*{1,2}`)."""
    (source,) = (path for path in lesson_sources() if path.stem[3:] == lesson)
    text = "\n\n".join(cell.source for cell in solved(source).cells if cell.cell_type == "markdown")
    text = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    return {" ".join(term.split()) for term in re.findall(f"{by}([A-Za-z][^*]*?){by}", text)}


def test_the_glossary_is_in_order():
    terms = list(glossary())
    assert terms == sorted(terms, key=str.lower)


def test_every_term_of_the_glossary_is_set_off_where_its_lesson_introduces_it():
    lessons = sorted(set(glossary().values()))
    terms = {lesson: {term.lower() for term in set_off(lesson, r"\*{1,2}")} for lesson in lessons}
    endings = ("", "s", "es", "d")
    missing = [
        term
        for term, lesson in glossary().items()
        if not any(term.lower() + ending in terms[lesson] for ending in endings)
    ]
    assert missing == []


@pytest.mark.parametrize("lesson", [source.stem[3:] for source in lesson_sources()])
def test_every_term_that_a_lesson_defines_in_bold_is_in_the_glossary(lesson):
    terms = [term for term in sorted(set_off(lesson, r"\*\*")) if not FURNITURE.match(term)]
    known = {term.lower() for term in glossary()}
    unknown = [
        term for term in terms if not {term.lower()[: len(term) - cut] for cut in (0, 1, 2)} & known
    ]
    assert unknown == []
