"""export: a kernel as C, for one signature or several."""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton

from course.compiling.lower import call_compiler, refuse_problem
from course.compiling.reference import Reference, reference_of
from course.compiling.targets import Target, target_of
from course.errors import CourseError

from . import code
from .cubin import Cubin, read_cubin
from .functions import Function, read_header
from .names import check_name, check_out
from .signature import Argument, parse_signature
from .tasks import compile_variants
from .writing import refuse_others_files, write_together


@dataclass(frozen=True)
class Variant:
    """One signature of a kernel, with the options that its code depends on; None takes the export's own."""

    signature: str
    num_warps: int | None = None
    num_stages: int | None = None


@dataclass(frozen=True)
class Exported:
    """A kernel's C, a header and a source for each variant. Prints as a table."""

    name: str
    functions: tuple[Function, ...]
    headers: tuple[Path, ...]

    @property
    def sources(self) -> tuple[Path, ...]:
        return tuple(header.with_suffix(".c") for header in self.headers)

    def __str__(self) -> str:
        first = self.functions[0]
        lines = [f"{self.name}: {first.kernel} for {first.target}, grid {first.grid}"]
        for function, header in zip(self.functions, self.headers, strict=True):
            needs = f"{function.registers} registers, {function.shared_bytes:,} bytes shared"
            lines.append(f"    {function.name}  {function.num_warps} warps, {function.num_stages} stages, {needs}")
            lines.append(f"        {header}, .c")
        return "\n".join(lines)

    __repr__ = __str__


def export(
    kernel: Any,
    variants: str | Variant | Sequence[str | Variant],
    grid: str,
    name: str,
    out: str | Path,
    num_warps: int = 4,
    num_stages: int = 3,
    target: str | None = None,
    force: bool = False,
) -> Exported:
    """Compile a kernel and write C that loads and launches it. Needs no GPU.

    kernel: a function under @triton.jit, of a notebook's cell too, or "file.py:name"; the file is executed.
    variants: a signature, as "*fp32:16, *fp32, i32, 1024", or a list of them. Each becomes a function; `link` joins them.
    grid: programs along x, y and z, as "cdiv(n, BLOCK), batch": numbers, the kernel's integers, + - * / % ( ) and cdiv.
    name: what the functions' names begin with. out: the files' path without hash and extension.
    target: as "sm_90" or "cuda:90:32"; this machine's GPU, or sm_90. force: write over files that are not ours.

    Raises CourseError for whatever cannot be exported, and has then written nothing.
    """
    check_name(name)
    path = check_out(out)
    if not isinstance(grid, str):
        raise CourseError(f'The grid is {grid!r:.60}, and must be a text, as "cdiv(n, 1024), 1, 1".')
    reference = _reference(kernel)
    found_target = nvidia_target(target)
    given = [each if isinstance(each, Variant) else Variant(each) for each in _listed(variants)]
    asked: list[dict[str, Any]] = [
        {
            "signature": each.signature,
            "num_warps": _or(each.num_warps, num_warps),
            "num_stages": _or(each.num_stages, num_stages),
        }
        for each in given
    ]
    for each in asked:
        _check_options(each["num_warps"], each["num_stages"])
        parse_signature(each["signature"])
    found = call_compiler(compile_variants, reference, asked, grid, found_target.name)
    refuse_problem(found)
    contents: dict[Path, str] = {}
    functions, headers = [], []
    for each, compiled in zip(asked, found["compiled"], strict=True):
        function, cubin = _function(each, compiled, found, grid, name, found_target)
        # As Triton's own tool names them.
        header, source = (path.with_suffix(f".{function.name.removeprefix(name + '_')}{suffix}") for suffix in (".h", ".c"))
        if header in contents:
            raise CourseError(f"The signature {each['signature']!r} is given twice: leave one out.")
        if not force:
            _refuse_another(header, function)
        contents[header], contents[source] = code.header(function), code.source(function, cubin, header.name)
        functions.append(function)
        headers.append(header)
    refuse_others_files(list(contents), force)
    write_together(contents)
    return Exported(name, tuple(functions), tuple(headers))


def _refuse_another(header: Path, function: Function) -> None:
    """Raise CourseError where another export has written this header: its name has neither the kernel's nor the target."""
    try:
        there = Function.from_json(read_header(header)["function"]) if header.is_file() else function
    except (CourseError, KeyError):
        return  # no export of ours: refuse_others_files
    what, ours = (f"{each.kernel} as {each.out_name} for {each.target}" for each in (there, function))
    if what != ours:
        raise CourseError(f"{header} exists, and holds {what}: name another output, or write over it by force.")


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _listed(variants: str | Variant | Sequence[str | Variant]) -> Sequence[str | Variant]:
    listed = [variants] if isinstance(variants, (str, Variant)) else variants
    if not isinstance(listed, (list, tuple)) or not all(isinstance(each, (str, Variant)) for each in listed):
        raise CourseError(f"The variants are {variants!r:.60}: give a signature, as a text, or a list of them.")
    if not listed:
        raise CourseError("There is nothing to export: give at least one signature.")
    return listed


def _reference(kernel: Any) -> Reference:
    if not isinstance(kernel, str):
        return reference_of(kernel, "aot.export")
    file, _, name = kernel.rpartition(":")
    if not file:
        raise CourseError(f"{kernel!r} names no kernel: write FILE.py:KERNEL.")
    if not Path(file).is_file():
        raise CourseError(f"There is no file {file}.")
    return {"file": str(Path(file).resolve()), "name": name}


def nvidia_target(text: str | None) -> Target:
    """The target of a name, as "sm_90", or "cuda:90:32" as Triton's own tool has it. Raises CourseError for other makers'."""
    if text is not None and not isinstance(text, str):
        raise CourseError(f'The target is {text!r:.60}, and must be a text, as "sm_90".')
    if text is not None and (text.startswith(("hip", "gfx"))):
        raise CourseError(f"{text} is an AMD target, and export writes C for NVIDIA's driver: take sm_90, say.")
    if match := re.fullmatch(r"cuda:(\d+)(?::(\d+))?", text or ""):
        if match[2] not in (None, "32"):
            raise CourseError(f"{text} has warps of {match[2]} threads, and NVIDIA's have 32: write cuda:{match[1]}:32.")
        text = f"sm_{match[1]}"
    found = target_of(text)
    if not found.nvidia:
        raise CourseError(f"{found.name} is an AMD target, and export writes C for NVIDIA's driver: take sm_90, say.")
    return found


def _check_options(num_warps: int, num_stages: int) -> None:
    if type(num_warps) is not int or num_warps not in (1, 2, 4, 8, 16, 32):
        raise CourseError(f"num_warps is {num_warps}: it must be 1, 2, 4, 8, 16 or 32.")
    if type(num_stages) is not int or not 0 <= num_stages <= 100:
        raise CourseError(f"num_stages is {num_stages}: it must be a whole number, usually 1 to 5.")


def _function(
    asked: dict[str, Any], compiled: dict[str, Any], found: dict[str, Any], grid: str, name: str, target: Target
) -> tuple[Function, Cubin]:
    """What is known of a variant once it is compiled, checked."""
    signature = parse_signature(asked["signature"])
    arguments = signature.bind(found["names"], found["kernel"], found["defaults"])
    cubin = read_cubin(base64.b64decode(compiled["code"]), compiled["symbol"])
    check_parameters(arguments, cubin)
    if compiled["shared_bytes"] > target.shared_bytes:
        raise CourseError(
            f"{found['kernel']} needs {compiled['shared_bytes']:,} bytes of shared memory, and a program on {target.name} may "
            f"have {target.shared_bytes:,}: take smaller blocks or fewer stages."
        )
    hash = signature.hash(asked["num_warps"], asked["num_stages"])
    function = Function(
        name=f"{name}_{hash}_{signature.suffix}", out_name=name, kernel=found["kernel"], target=target.name,
        triton=triton.__version__, arguments=arguments, grid=" ".join(grid.split()),
        num_warps=asked["num_warps"], num_stages=asked["num_stages"], threads=compiled["threads"],
        shared_bytes=compiled["shared_bytes"], registers=cubin.registers,
    )  # fmt: skip
    return function, cubin


def check_parameters(arguments: Sequence[Argument], cubin: Cubin) -> None:
    """Raise CourseError unless the kernel's own parameters are what the C function passes, byte for byte.

    cuLaunchKernel is told no sizes: with another type it would read wrong values without any error.
    """
    passed = [each for each in arguments if each.passed and each.type]
    scratch = cubin.parameters[len(passed) :]
    if len(cubin.parameters) < len(passed) or len(scratch) > len(code.SCRATCH) or any(each.size != 8 for each in scratch):
        raise CourseError(
            f"{cubin.symbol} takes {len(cubin.parameters)} parameters where {len(passed)} arguments and Triton's scratch "
            "memory were expected: this version of Triton passes something else, and export does not know what."
        )
    for argument, parameter in zip(passed, cubin.parameters, strict=False):
        assert argument.type is not None
        if argument.type.bytes != parameter.size:
            raise CourseError(
                f"{cubin.symbol} takes {argument.name} as {parameter.size} bytes, and {argument.type.name} has "
                f"{argument.type.bytes}: nothing was written, since it would read a wrong value."
            )
