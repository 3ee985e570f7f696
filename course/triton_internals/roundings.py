"""Where an interpreted kernel rounds to 16 bits."""

import contextlib
from collections.abc import Callable
from typing import Any

from triton.runtime import interpreter

from .patching import patched


def roundings_told(tell: Callable[[], None]) -> contextlib.AbstractContextManager[None]:
    """While active, call `tell` for each rounding to float16 or bfloat16, also that of a store."""
    own = interpreter.interpreter_builder.create_fp_trunc

    def create_fp_trunc(block: Any, kind: Any) -> Any:
        if kind.scalar.primitive_bitwidth == 16:
            tell()
        return own(block, kind)

    return patched(interpreter.interpreter_builder, create_fp_trunc=create_fp_trunc)
