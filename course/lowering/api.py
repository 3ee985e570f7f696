"""lower: a kernel through every stage of the compiler, for any GPU, whether there is one or not."""

from dataclasses import replace
from pathlib import Path

from course.gpus.limits import target_of
from course.triton_internals.choices import with_choices
from course.type_names import AnyValue, Kernel

from .arguments import Request
from .compile_errors import LowerError, run_compiler
from .kernel_reference import InFile, kernel_and_reference
from .recorded_grid import without_grid
from .result import Lowered
from .worker import compile_kernel

__all__ = ["LowerError", "Lowered", "Request", "lower", "lower_again", "lower_file"]


def lower(
    kernel: Kernel, *args: AnyValue, target: str | None = None, **kwargs: AnyValue
) -> Lowered:
    """Compile `kernel` for `target`, specialized as for a launch with these arguments.

    kernel: a function under `@triton.jit`, or "file.py:name"; the file is executed.
    args, kwargs: what a launch is given, without the grid: tensors, numbers, tensor descriptors,
        constants, options of the compiler such as num_warps and num_stages. In place of a tensor or
        number a text may describe it: "*fp16" is a pointer to float16, "*fp16:16" one that is
        divisible by 16, "*fp16:16 large" one into a storage of more than 2 GB; "i32", "i64",
        "fp16", "fp32", "i32:16" and "i32:1" are numbers. What `@triton.heuristics` chooses is
        chosen. `config` is the number of a configuration of `@triton.autotune`, or a triton.Config.
    target: "sm_75" to "sm_120", "gfx942", "gfx1100" and others, or a GPU by its name, as "H200"; by
        default this machine's GPU, and sm_90 if it has none.

    Raises LowerError, with the kernel's line, if it does not compile; CourseError for what is no
    kernel or no target.
    """
    kernel, reference = kernel_and_reference(kernel, "lower")
    args, kwargs = without_grid(args, kwargs)
    return lower_again(Request.of(reference, args, with_choices(kernel, args, kwargs)), target)


def lower_file(
    file: str | Path,
    name: str,
    signature: list[str],
    target: str | None = None,
    /,
    **options: AnyValue,
) -> Lowered:
    """Compile the kernel `name` of a file.

    signature: a text for each argument, in order; those of constexprs are literals. options:
        arguments by name and options of the compiler, whatever their names are.
    """
    request = Request.of(InFile.of(file, name), signature, options)
    return lower_again(replace(request, literal=True), target)


def lower_again(
    request: Request, target_name: str | None, timeout_s: float | None = None
) -> Lowered:
    """Compile what was asked for before, for another target.

    timeout_s: how long the compiler may compute, if not as long as always; raises LowerError
        after that.
    """
    target, compiles = target_of(target_name), compile_kernel
    if timeout_s is not None:
        compiles = compile_kernel.within(kind=compile_kernel.kind, timeout_s=timeout_s)
    return Lowered.of(run_compiler(compiles, request, target.name), target, request)
