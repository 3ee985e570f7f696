"""stock: Triton's own ahead-of-time tool, run without a GPU, to compare with `course.aot`.

The tool asks the machine's GPU for types and target, and fails without one. In a child whose driver
only names a target it writes the files that it writes on a machine with that GPU.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course.errors import CourseError
from course.gpus.limits import target_of
from course.isolate import runs_in
from course.lowering.kernel_reference import AsText, KernelReference, loaded_at, reference_of_text
from course.triton_internals.compiler import own_cache
from course.triton_internals.driver import driver_of
from course.triton_internals.jit_functions import jit_function
from course.type_names import Kernel

from .abi import Value, converter, scalar_of
from .c_compiler import compile_library
from .handed import CapturedLaunch, captured_c_launch, plain
from .options import nvidia_target
from .signature import parse_signature


@dataclass(frozen=True)
class Compiled:
    """What `triton.tools.compile` wrote for a signature. Prints as the C function's declaration."""

    function: str
    path: str
    types: tuple[str, ...]
    """Triton's types of the arguments that the kernel takes."""

    @property
    def header(self) -> Path:
        return Path(self.path)

    @property
    def declaration(self) -> str:
        lines = self.header.read_text().splitlines()
        return next(line for line in lines if line.startswith("CUresult"))

    def handed(self, *values: Value) -> CapturedLaunch:
        """What the driver is handed when the function is called with these values, in order.

        Raises CourseError for values that the function does not take.
        """
        if len(values) != len(self.types):
            takes = f"{self.function} takes {len(self.types)} values"
            raise CourseError(f"{takes}, and was given {len(values)}.")
        library = self.header.with_suffix(".so")
        # Without warnings: its C has a path without a return.
        compile_library([self.header.with_suffix(".c")], library, "-w")
        parameters = re.findall(r"(\w+) (\w+)[,)]", self.declaration)[1:]  # after the stream
        c_types = [c_type for c_type, _ in parameters]
        arguments = [(name, type) for (_, name), type in zip(parameters, self.types, strict=True)]
        for (name, type), value in zip(arguments, values, strict=True):
            if scalar := scalar_of(type):
                converter(name, scalar)(value)  # raises CourseError for one of another kind
        plain_values = [plain(value) for value in values]
        path = str(library.absolute())
        return captured_c_launch(path, self.function, c_types, arguments, plain_values)

    def __str__(self) -> str:
        return self.declaration

    __repr__ = __str__


def compile(
    kernel: Kernel,
    signature: str,
    grid: str,
    name: str,
    out: str | Path,
    num_warps: int = 1,
    num_stages: int = 3,
    target: str = "sm_90",
) -> Compiled:
    """Run `triton.tools.compile` for a kernel. Its defaults are the tool's, but for the target.

    kernel: a function under @triton.jit, also one of a notebook's cell, or "file.py:name"; the file
        is executed. grid: three parts, which go into the C as they stand.
    """
    target = nvidia_target(target).name
    if not isinstance(out, (str, Path)):
        raise CourseError(f"The output is {out!r:.60}, and must be a path without an extension.")
    path = Path(out)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CourseError(f"{path.parent} cannot be made: {error.strerror}.") from error
    reference = reference_of_text(kernel, "stock.compile")
    options = {
        "signature": signature, "grid": grid, "out_name": name,
        "num_warps": num_warps, "num_stages": num_stages,
    }  # fmt: skip
    function, header = _compile(reference, options, str(path), target)
    types = [str(each.type) for each in parse_signature(signature).arguments if each.passed]
    return Compiled(function, header, tuple(types))


@runs_in("compile")
def _compile(
    reference: KernelReference, options: dict[str, Any], out: str, target: str
) -> tuple[str, str]:
    """The C function's name, and the path of its header."""
    from triton.tools.compile import CompileArgs, compile_kernel

    gpu = target_of(target).triton
    kernel = jit_function(loaded_at(reference, gpu))
    path = Path(kernel.fn.__code__.co_filename)
    if isinstance(reference, AsText):  # the tool takes a file
        path, source = Path(f"{out}.py"), reference.source
        texts = [*source.imports, *source.constants, *(each.alone for each in source.definitions)]
        path.write_text("\n\n".join(texts) + "\n")
    own: dict[str, Any] = {"path": str(path), "kernel_name": kernel.__name__}
    arguments = CompileArgs(**own, **options, out_path=Path(out))
    with own_cache("course-stock-"), driver_of(gpu, runs_trials=False):
        try:
            function, files = compile_kernel(arguments)
        except (Exception, SystemExit) as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())[:200].rstrip(": ")
            raise CourseError(f"Triton's own tool refuses ({said}).") from error
    return function, next(str(file) for file in files if file.suffix == ".h")
