"""stock: Triton's own ahead-of-time tool, run where no GPU is, to compare with `course.aot`.

Its commands ask the machine's GPU for types and target, and fail where there is none. In a child that names a target
instead, and with Triton's own names of C types, it writes the files that it writes on a GPU's machine.
"""

import ctypes
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton.backends.compiler import GPUTarget

from course.errors import CourseError
from course.gpus.limits import target_of
from course.lowering.api import call_compiler, refuse_problem
from course.lowering.kernel_reference import AsText, InFile, Reference, loaded_at, reference_of
from course.triton_internals.driver import FixedDriver
from course.triton_internals.jit_functions import jit_function

from . import fake_driver as standin
from .building import compile_library
from .captured_launch import Handed, described, from_json, launch_json, made
from .driver import Driver
from .loading import C_TYPES


@dataclass(frozen=True)
class Compiled:
    """What `triton.tools.compile` wrote for one signature. Prints as the C function's declaration."""

    function: str
    header: Path
    types: tuple[str, ...]
    """Triton's, of the arguments that the kernel takes."""

    @property
    def declaration(self) -> str:
        lines = self.header.read_text().splitlines()
        return next(line for line in lines if line.startswith("CUresult"))

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """Of the C function after the stream: type and name."""
        listed = re.search(r"\((.*)\)", self.declaration)
        assert listed is not None
        pairs = [each.split() for each in listed[1].split(", ")[1:]]
        return [(kind, name) for kind, name in pairs]

    def handed(self, *values: Any) -> Handed:
        """What the driver is handed when the function is called with these values: tensors and numbers, in order."""
        library = self.header.with_suffix(".so")
        # Without warnings: its C has a path without a return.
        compile_library([self.header.with_suffix(".c")], library, "-w")
        names = [(name, kind) for (_, name), kind in zip(self.parameters, self.types, strict=True)]
        types = [c for c, _ in self.parameters]
        given = [described(value) for value in values]
        return from_json(
            call_compiler(_launch, str(library.absolute()), self.function, types, names, given)
        )

    def __str__(self) -> str:
        return self.declaration

    __repr__ = __str__


def compile(
    kernel: Any, signature: str, grid: str, name: str, out: str | Path, num_warps: int = 1, num_stages: int = 3,
    target: str = "sm_90",
) -> Compiled:  # fmt: skip
    """Run `triton.tools.compile` for a kernel. Its defaults are the tool's, but for the target.

    kernel: a function under @triton.jit, of a notebook's cell too, or "file.py:name"; the file is executed.
    grid: three parts, which go into the C as they stand.
    """
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    file, _, function = kernel.rpartition(":") if isinstance(kernel, str) else ("", "", "")
    reference = InFile(file, function) if file else reference_of(kernel, "stock.compile")
    found = call_compiler(
        _compile, reference, signature, grid, name, str(out), num_warps, num_stages, target
    )
    refuse_problem(found)
    return Compiled(found["function"], Path(found["header"]), tuple(found["types"]))


class _Driver(FixedDriver):
    """With the C types that Triton's own driver names."""

    def map_python_to_cpp_type(self, type: str) -> str:
        from triton.backends.nvidia import driver

        # A function of the class in some versions of Triton, and of the module in others.
        to_cpp = getattr(driver, "ty_to_cpp", None) or driver.CudaDriver.map_python_to_cpp_type
        return str(to_cpp(type))


def _compile(
    reference: Reference,
    signature: str,
    grid: str,
    name: str,
    out: str,
    num_warps: int,
    num_stages: int,
    target: str,
) -> dict[str, Any]:
    """In the child."""
    import triton
    from triton.tools.compile import CompileArgs, compile_kernel

    try:
        gpu: GPUTarget = target_of(target).triton
        kernel = jit_function(loaded_at(reference, gpu))
    except CourseError as error:
        return {"problem": str(error)}
    triton.runtime.driver.set_active(_Driver(gpu, runs_trials=False))
    path = Path(kernel.fn.__code__.co_filename)
    if isinstance(reference, AsText):  # the tool takes a file
        path, source = Path(f"{out}.py"), reference.source
        texts = [*source.imports, *source.constants, *(each.text for each in source.definitions)]
        path.write_text("\n\n".join(texts) + "\n")
    arguments = CompileArgs(
        path=str(path), kernel_name=kernel.__name__, signature=signature, grid=grid, num_warps=num_warps,
        num_stages=num_stages, out_name=name, out_path=Path(out),
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="course-stock-") as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        try:
            function, files = compile_kernel(arguments)
        except (Exception, SystemExit) as error:
            said = " ".join(str(error).split())[:200]
            return {
                "problem": f"Triton's own tool refuses ({type(error).__name__}{f': {said}' if said else ''})."
            }
    header = next(file for file in files if file.suffix == ".h")
    parts = [part.strip() for part in signature.split(",")]
    types = [
        part.split(":")[0]
        for part in parts
        if re.match(r"[*a-z]", part) and not part.endswith(":1")
    ]
    return {"function": function, "header": str(header), "types": types}


def _launch(
    library: str, function: str, types: list[str], names: list[Any], values: list[Any]
) -> dict[str, Any]:
    """In the child."""
    driver = Driver(standin)
    loaded = ctypes.CDLL(library)
    tensors = [made(value) for value in values]
    numbers = [getattr(each, "data_ptr", lambda each=each: each)() for each in tensors]
    found = loaded[function]
    found.argtypes = [ctypes.c_void_p, *(C_TYPES[c] for c in types)]
    with standin.recorded() as calls:
        driver.check(function, driver.call(0, found, None, *numbers))
    launch = next(each for each in calls if each.name == "cuLaunchKernel")
    return launch_json(function, [tuple(each) for each in names], launch)
