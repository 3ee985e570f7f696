"""export: a kernel as C, for one signature or several."""

import base64
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import triton

from course.errors import CourseError
from course.files import write_together
from course.gpus.limits import Target, target_of
from course.lowering.api import call_compiler, refuse_problem
from course.lowering.kernel_reference import InFile, Reference, reference_of

from .c import kernel as code
from .cubin import Cubin, read_cubin
from .identifiers import check_name, check_out
from .manifest import Function, read_header
from .signature import Argument, Options, Signature, counted, parse_signature
from .worker import compile_variants
from .writing import refuse_others_files

T = TypeVar("T")
LEAST_REGISTERS, MOST_REGISTERS = 24, 255
"""What a thread may be limited to: NVIDIA's assembler gives no kernel fewer."""
LONGEST_FILE_NAME = 255
"""Bytes, of the file systems in use."""


@dataclass(frozen=True)
class Variant:
    """One signature of a kernel, with the options that its code depends on; None takes the export's own."""

    signature: str
    num_warps: int | None = None
    num_stages: int | None = None
    maxnreg: int | None = None
    enable_fp_fusion: bool | None = None


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
            needs = (
                f"{counted(function.registers, 'register')}, {function.shared_bytes:,} bytes shared"
            )
            lines.append(f"    {function.name}  {function.options}; {needs}")
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
    maxnreg: int | None = None,
    enable_fp_fusion: bool | None = None,
) -> Exported:
    """Compile a kernel and write C that loads and launches it. Needs no GPU.

    kernel: a function under @triton.jit, of a notebook's cell too, or "file.py:name"; the file is executed.
    variants: a signature, as "*fp32:16, *fp32, i32, 1024", or a list of them. Each becomes a function; `link` joins them.
    grid: programs along x, y and z, as "cdiv(n, BLOCK), batch": numbers, the kernel's integers, + - * / % ( ) and cdiv.
    name: what the functions' names begin with. out: the files' path without hash and extension.
    target: as "sm_90" or "cuda:90:32"; this machine's GPU, or sm_90. force: write over files that are not ours.
    num_warps, num_stages, maxnreg, enable_fp_fusion: as a launch takes them. num_ctas is none of them: the C launches no
    clusters.

    Raises CourseError for whatever cannot be exported, and has then written nothing.
    """
    check_name(name)
    path = check_out(out)
    if not isinstance(grid, str):
        raise CourseError(
            f'The grid is {grid!r:.60}, and must be a text, as "cdiv(n, 1024), 1, 1".'
        )
    reference = _reference(kernel)
    found_target = nvidia_target(target)
    given = [each if isinstance(each, Variant) else Variant(each) for each in _listed(variants)]
    asked = [
        (
            each.signature,
            Options(
                _or(each.num_warps, num_warps), _or(each.num_stages, num_stages),
                _or(each.maxnreg, maxnreg), _or(each.enable_fp_fusion, enable_fp_fusion),
            ),
        )
        for each in given
    ]  # fmt: skip
    for signature, options in asked:
        _check_options(options)
        parse_signature(signature)
    variants_asked = [
        {"signature": signature, "options": options.given} for signature, options in asked
    ]
    found = call_compiler(compile_variants, reference, variants_asked, grid, found_target.name)
    refuse_problem(found)
    contents: dict[Path, str] = {}
    functions, headers = [], []
    for (signature, options), compiled in zip(asked, found["compiled"], strict=True):
        function, cubin = _function(
            parse_signature(signature), options, compiled, found, grid, name, found_target
        )
        header, source = (_file(path, function, suffix) for suffix in (".h", ".c"))
        if header in contents:
            raise CourseError(f"The signature {signature!r:.200} is given twice: leave one out.")
        if not force:
            _refuse_another(header, function)
        contents[header], contents[source] = (
            code.header(function),
            code.source(function, cubin, header.name),
        )
        functions.append(function)
        headers.append(header)
    refuse_others_files(list(contents), force)
    write_together(contents)
    return Exported(name, tuple(functions), tuple(headers))


def _refuse_another(header: Path, function: Function) -> None:
    """Raise CourseError where another export has written this header: its name has neither the kernel's nor the target."""
    try:
        there = (
            Function.from_json(read_header(header)["function"]) if header.is_file() else function
        )
    except (CourseError, KeyError):
        return  # no export of ours: refuse_others_files
    what, ours = (
        f"{each.kernel} as {each.out_name} for {each.target}" for each in (there, function)
    )
    if what != ours:
        raise CourseError(
            f"{header} exists, and holds {what}: name another output, or write over it by force."
        )


def _file(path: Path, function: Function, extension: str) -> Path:
    """As Triton's own tool names it; without the hints where the name would be too long. The hash tells them apart as well."""
    digits_and_hints = function.name.removeprefix(f"{function.out_name}_")
    whole = path.with_suffix(f".{digits_and_hints}{extension}")
    if len(os.fsencode(whole.name)) <= LONGEST_FILE_NAME:
        return whole
    return path.with_suffix(f".{digits_and_hints.partition('_')[0]}_{extension}")


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def _listed(variants: str | Variant | Sequence[str | Variant]) -> Sequence[str | Variant]:
    listed = [variants] if isinstance(variants, (str, Variant)) else variants
    if not isinstance(listed, (list, tuple)) or not all(
        isinstance(each, (str, Variant)) for each in listed
    ):
        raise CourseError(
            f"The variants are {variants!r:.60}: give a signature, as a text, or a list of them."
        )
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
    return InFile(str(Path(file).resolve()), name)


def nvidia_target(text: str | None) -> Target:
    """The target of a name, as "sm_90", or "cuda:90:32" as Triton's own tool has it. Raises CourseError for other makers'."""
    if text is not None and not isinstance(text, str):
        raise CourseError(f'The target is {text!r:.60}, and must be a text, as "sm_90".')
    if text is not None and (text.startswith(("hip", "gfx"))):
        raise CourseError(
            f"{text} is an AMD target, and export writes C for NVIDIA's driver: take sm_90, say."
        )
    if match := re.fullmatch(r"cuda:(\d+)(?::(\d+))?", text or ""):
        if match[2] not in (None, "32"):
            raise CourseError(
                f"{text} has warps of {match[2]} threads, and NVIDIA's have 32: write cuda:{match[1]}:32."
            )
        text = f"sm_{match[1]}"
    found = target_of(text)
    if not found.nvidia:
        raise CourseError(
            f"{found.name} is an AMD target, and export writes C for NVIDIA's driver: take sm_90, say."
        )
    return found


def _check_options(options: Options) -> None:
    if type(options.num_warps) is not int or options.num_warps not in (1, 2, 4, 8, 16, 32):
        raise CourseError(f"num_warps is {options.num_warps}: it must be 1, 2, 4, 8, 16 or 32.")
    if type(options.num_stages) is not int or not 0 <= options.num_stages <= 100:
        raise CourseError(
            f"num_stages is {options.num_stages}: it must be a whole number, usually 1 to 5."
        )
    most = options.maxnreg
    if most is not None and (
        type(most) is not int or not LEAST_REGISTERS <= most <= MOST_REGISTERS
    ):
        raise CourseError(
            f"maxnreg is {most!r:.60}: it must be a whole number of registers per thread, "
            f"{LEAST_REGISTERS} to {MOST_REGISTERS}."
        )
    if options.enable_fp_fusion not in (None, True, False):
        raise CourseError(
            f"enable_fp_fusion is {options.enable_fp_fusion!r:.60}: it must be True or False."
        )


def _function(
    signature: Signature, options: Options, compiled: dict[str, Any], found: dict[str, Any], grid: str, name: str,
    target: Target,
) -> tuple[Function, Cubin]:  # fmt: skip
    """What is known of a variant once it is compiled, checked."""
    arguments = signature.bind(found["names"], found["kernel"], found["defaults"])
    cubin = read_cubin(base64.b64decode(compiled["code"]), compiled["symbol"])
    check_parameters(arguments, cubin)
    if compiled["shared_bytes"] > target.shared_bytes:
        raise CourseError(
            f"{found['kernel']} needs {compiled['shared_bytes']:,} bytes of shared memory, and a program on {target.name} may "
            f"have {target.shared_bytes:,}: take smaller blocks or fewer stages."
        )
    hash = signature.hash(options)
    function = Function(
        name=f"{name}_{hash}_{signature.suffix}", out_name=name, kernel=found["kernel"], target=target.name,
        triton=triton.__version__, arguments=arguments, grid=" ".join(grid.split()),
        threads=compiled["threads"], shared_bytes=compiled["shared_bytes"], registers=cubin.registers, **asdict(options),
    )  # fmt: skip
    return function, cubin


def check_parameters(arguments: Sequence[Argument], cubin: Cubin) -> None:
    """Raise CourseError unless the kernel's own parameters are what the C function passes, byte for byte.

    cuLaunchKernel is told no sizes: with another type it would read wrong values without any error.
    """
    passed = [each for each in arguments if each.passed and each.type]
    scratch = cubin.parameters[len(passed) :]
    if (
        len(cubin.parameters) < len(passed)
        or len(scratch) > len(code.SCRATCH)
        or any(each.size != 8 for each in scratch)
    ):
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
