"""A launch by Triton itself, of other machine code than what the JIT has compiled for it."""

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from triton import JITFunction
from triton.compiler.compiler import make_backend

from course.type_names import AnyValue, AnyValues

from .compiler import CompiledKernel, known_by_its_files
from .profile_buffer import set_profile_buffer


class Launcher:
    """A launch whose arguments Triton has described once. Only on a GPU."""

    _loaded: ClassVar[list[CompiledKernel]] = []
    """Codes stay loaded until the process ends: Triton 3.9 unloads one with its last reference, and
    that waits for the kernel which runs, even for one that never ends."""

    def __init__(
        self, kernel: JITFunction, grid: tuple[int, ...], args: list[AnyValue], kwargs: AnyValues
    ) -> None:
        """Compiles the kernel, as the launch would."""
        with known_by_its_files():
            self._compiled = kernel.warmup(*args, grid=grid, **kwargs)
        self._grid = (*grid, 1, 1)[:3]
        *_, bind = kernel.device_caches[torch.cuda.current_device()]
        values, _, _ = bind(*args, **kwargs)
        self._values = [*values.values()]

    def of(
        self, binary: bytes, num_warps: int, shared_bytes: int, scratch: torch.Tensor | None = None
    ) -> Callable[[], None]:
        """A function that launches machine code made from the same kernel, on the same arguments.

        scratch: memory whose address the code finds in the kernel's last parameter, where a
            profiler's buffer would be.
        """
        code = copy.copy(self._compiled)
        code.metadata = code.metadata._replace(
            num_warps=num_warps, shared=shared_bytes, profile_scratch_size=int(scratch is not None)
        )
        code.packed_metadata = make_backend(code.metadata.target).pack_metadata(code.metadata)
        code.kernel, code.module, code.function, code._run = binary, None, None, None
        run: Any = code.run  # loads it
        self._loaded.append(code)
        stream = torch.cuda.current_stream().cuda_stream

        def launch() -> None:
            if scratch is not None:
                set_profile_buffer(scratch)
            packed, values = code.packed_metadata, self._values
            run(*self._grid, stream, code.function, packed, None, None, None, *values)

        return launch
