"""A file that repeats one launch by itself."""

import ast
import io
import platform
from collections.abc import Sequence
from pathlib import Path

import torch
import triton

from course import MODE
from course.errors import CourseError
from course.files import write_together
from course.isolate.function_source import Source, source_of
from course.lowering.arguments import describe, python_of
from course.triton_internals.choices import with_choices
from course.triton_internals.jit_functions import inner_kernel
from course.type_names import AnyValue, AnyValues, Kernel

FILE = '''\
"""One launch of {kernel}, as course.launches() has recorded it.

With a GPU the kernel is compiled; without one, or with TRITON_INTERPRET=1, it is interpreted.
Recorded with {versions}.
"""

import os
from pathlib import Path

import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1" or not torch.cuda.is_available()
DEVICE = "cpu" if INTERPRETED else "cuda"
if INTERPRETED:
    os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when it is imported

import triton
import triton.language as tl
{guard}
{definitions}


def tensors():
    """The launch's tensors as they were before it."""
{tensors}

if __name__ == "__main__":
    tensor = tensors()
    {kernel}[{grid}](
{arguments}
    )
    for number, each in enumerate(tensor):
        total = each.double().sum().item()
        print(f"tensor[{{number}}]: {{each.dtype}}, {{tuple(each.shape)}}, sum {{total:.9g}}")
'''
GUARD = """
if INTERPRETED:
    raise SystemExit(
        "Run this with a GPU: the kernel joins blocks by `and`, `or` or `not`, which Triton's"
        " interpreter by itself takes as Python does."
    )

"""
WRITTEN_OUT = 64
"""Integers of a tensor up to which they are written into the file."""
ASKS = (ast.If, ast.IfExp, ast.While, ast.Assert)
SAVED = '    return torch.load(Path(__file__).with_suffix(".pt"), map_location=DEVICE)\n'


def write_repeat(
    path: Path,
    kernel: Kernel,
    grid: tuple[int, ...],
    args: Sequence[AnyValue],
    kwargs: AnyValues,
    seed: int | None,
) -> Path:
    """Write the file that `Launch.to_file` promises."""
    if path.is_file() and not path.read_bytes().startswith(FILE[: FILE.index("{")].encode()):
        raise CourseError(
            f"{path} is there, and repeats no launch: give another name, or move it away."
        )
    source = _source(kernel)
    kept: list[torch.Tensor] = []
    given = [python_of(describe(value, kept)) for value in args]
    for name, value in with_choices(kernel, args, kwargs).items():
        given.append(f"{name}={python_of(describe(value, kept))}")
    text = FILE.format(
        kernel=source.definitions[-1].name,
        versions=versions(),
        guard=GUARD if any(_joins(each.text) for each in source.definitions) else "",
        definitions=_definitions(source),
        tensors=SAVED if seed is None else _made_anew(kept, seed),
        grid=tuple(grid),
        arguments="\n".join(f"        {each}," for each in given),
    )
    contents: dict[Path, str | bytes] = {path: text}
    if seed is None:
        contents[path.with_suffix(".pt")] = _saved(kept)
    write_together(contents)
    return path


def versions() -> str:
    gpu = torch.cuda.get_device_name() if MODE.gpu else "no GPU"
    python = platform.python_version()
    return f"Python {python}, PyTorch {torch.__version__}, Triton {triton.__version__} and {gpu}"


def _source(kernel: Kernel) -> Source:
    """The kernel's text with that of all it calls, as far as names allow."""
    try:
        return source_of(inner_kernel(kernel), kernels_as_text=True)
    except CourseError:
        return source_of(inner_kernel(kernel))


def _definitions(source: Source) -> str:
    usual = ("import course", "import triton as triton", "import triton.language as tl")
    lines = [line for line in source.imports if line not in usual] + [*source.constants]
    parts = ["\n".join(lines), *(each.alone for each in source.definitions)]
    return "\n\n\n".join(filter(None, parts)).replace("__import__('triton').", "triton.")


def _joins(text: str) -> bool:
    """Whether a kernel may join blocks by Python's words: not where it asks for one truth."""
    tree = ast.parse(text)
    asking = [node.test for node in ast.walk(tree) if isinstance(node, ASKS)]
    asked = {id(node) for test in asking for node in ast.walk(test)}
    words = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.BoolOp) or isinstance(getattr(node, "op", None), ast.Not)
    ]
    return any(id(node) not in asked for node in words)


def _saved(tensors: Sequence[torch.Tensor]) -> bytes:
    if any(tensor.is_meta for tensor in tensors):
        raise CourseError("Tensors on the device 'meta' hold no values: give a seed to make some.")
    stream = io.BytesIO()
    torch.save(tensors, stream)
    return stream.getvalue()


def _made_anew(tensors: Sequence[torch.Tensor], seed: int) -> str:
    """The body of a function that makes such tensors, those that share memory among them."""
    numbers: dict[int, int] = {}
    lines, views = [f"torch.manual_seed({seed})", "memory = ["], []
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage._cdata not in numbers:
            numbers[storage._cdata] = len(numbers)
            length = -(-storage.nbytes() // tensor.itemsize)
            lines.append(f"    {_values(tensor, length)}.to({tensor.dtype}).to(DEVICE),")
        place = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
        memory = f"memory[{numbers[storage._cdata]}].view({tensor.dtype})"
        views.append(f"    {memory}.as_strided{place},")
    return "\n".join(f"    {line}" for line in [*lines, "]", "return [", *views, "]"]) + "\n"


def _values(tensor: torch.Tensor, length: int) -> str:
    """The expression of so many values that a tensor may hold."""
    if few := _few_integers(tensor, length):
        return few
    if tensor.is_floating_point():
        return f"torch.randn({length})"
    least, most = 0, 0
    if tensor.numel() and not tensor.is_meta:
        whole = tensor.to(torch.int64)
        least, most = int(whole.min()), int(whole.max())
    return f"torch.randint({least}, {min(most, 2**63 - 2) + 1}, ({length},))"


def _few_integers(tensor: torch.Tensor, length: int) -> str:
    """The numbers themselves where they are few, as where sequences begin; else empty."""
    if tensor.is_floating_point() or tensor.is_meta or not 0 < length <= WRITTEN_OUT:
        return ""
    if not tensor.is_contiguous() or tensor.numel() != length:
        return ""
    return f"torch.tensor({tensor.flatten().tolist()})"
