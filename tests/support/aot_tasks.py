"""For a child to run: Triton's own ahead-of-time tools, with a target that need not be there."""

import contextlib
import io
import os
import runpy
import sys
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget


def stock_compile(file, kernel, signature, grid, num_warps, num_stages, out_name, out_path):
    """Names of the function and of the files that `triton.tools.compile` makes."""
    from triton.backends.nvidia import driver as nvidia
    from triton.tools.compile import CompileArgs, compile_kernel

    # Where the C type of an argument stands; a function of the class in some versions, and of the module in others.
    to_cpp = getattr(nvidia, "ty_to_cpp", None) or nvidia.CudaDriver.map_python_to_cpp_type

    class Fixed:
        def get_current_target(self):
            return GPUTarget("cuda", 90, 32)

        def map_python_to_cpp_type(self, name):
            return to_cpp(name)

    triton.runtime.driver.set_active(Fixed())
    os.environ["TRITON_CACHE_DIR"] = str(Path(out_path).parent / "cache")
    arguments = CompileArgs(
        path=file, kernel_name=kernel, signature=signature, grid=grid, num_warps=num_warps, num_stages=num_stages,
        out_name=out_name, out_path=Path(out_path),
    )  # fmt: skip
    name, files = compile_kernel(arguments)
    return [name, sorted(Path(file).name for file in files)]


def stock_link(headers, out):
    """What `triton.tools.link` says when it fails, or nothing."""
    sys.argv = ["link", *headers, "-o", out]
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            runpy.run_module("triton.tools.link", run_name="__main__")
        except Exception as error:
            return str(error)
    return ""
