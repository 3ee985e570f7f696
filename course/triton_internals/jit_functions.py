"""What is under `@triton.jit`, and how the JIT would specialize it."""

import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any

from triton import JITFunction, KernelInterface
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend
from triton.runtime.jit import ConstexprFunction, create_function_from_signature

from course import MODE
from course.errors import CourseError
from course.type_names import AnyValue, AnyValues, Function, Kernel, kind_of


def plain_function(kernel: AnyValue) -> Function | None:
    """The Python function under `@triton.jit` (and `@triton.autotune` and the like), or None.

    Answers alike for compiled and interpreted kernels.
    """
    if not isinstance(kernel, KernelInterface):
        return None
    while not inspect.isfunction(kernel):
        kernel = getattr(kernel, "fn", None)
        if kernel is None:
            return None
    return kernel


def evaluated_function(value: AnyValue) -> Function | None:
    """The Python function under `@triton.constexpr_function`, or None.

    Kernels call it while they are compiled, with constants.
    """
    return value.fn if isinstance(value, ConstexprFunction) else None


def is_gluon(kernel: KernelInterface) -> bool:
    """Whether a kernel is written in Gluon, where layouts are the author's to choose."""
    return type(inner_kernel(kernel)).__name__ == "GluonJITFunction"


def layers(kernel: KernelInterface) -> Iterator[KernelInterface]:
    """A kernel with all that stands above `@triton.jit`, then with one layer less, and so on."""
    while kernel is not None and not inspect.isfunction(kernel):
        yield kernel
        kernel = kernel.fn


def inner_kernel(kernel: KernelInterface) -> KernelInterface:
    """The kernel itself, compiled or interpreted, under `@triton.autotune` and the like."""
    *_, inner = layers(kernel)
    return inner


@cache
def compiler_options() -> frozenset[str]:
    """The names of the options that a launch may give, such as num_warps, for NVIDIA or AMD."""
    if MODE.in_page:  # where there is no compiler to ask
        return frozenset(("num_warps", "num_stages", "num_ctas", "maxnreg"))
    targets = (GPUTarget("cuda", 90, 32), GPUTarget("hip", "gfx942", 64))
    return frozenset(
        name for target in targets for name in vars(make_backend(target).parse_options({}))
    )


def jit_function(kernel: KernelInterface) -> JITFunction:
    """The kernel itself, under `@triton.autotune` and the like. Only if the interpreter is off.

    Raises CourseError for what is no kernel.
    """
    while not isinstance(kernel, JITFunction):
        if type(kernel).__name__ == "InterpretedFunction":
            raise CourseError(
                f"{kernel.fn.__name__} is interpreted: its file sets TRITON_INTERPRET, and must "
                "leave that to others."
            )
        if not isinstance(kernel, KernelInterface):
            name, kind = getattr(kernel, "__name__", repr(kernel)), kind_of(kernel)
            raise CourseError(f"{name} is {kind} and no kernel, a function under @triton.jit.")
        kernel = kernel.fn
    return kernel


UNSPECIALIZED = ("do_not_specialize", "do_not_specialize_on_alignment")
"""The options of `@triton.jit` that name parameters of which the compiler shall not be told."""


def jit_decorator(kernel: Kernel) -> str:
    """The expression of a decorator that makes a kernel of its function again, without what names
    or describes its launches.

    Empty for a kernel under `@triton.autotune` and the like, and for what is no kernel. Raises
    CourseError where one name stands in place of a list of names.
    """
    if not isinstance(kernel, KernelInterface) or not inspect.isfunction(kernel.fn):
        return ""
    given = _decorated(kernel)
    for name in UNSPECIALIZED:
        if isinstance(given.get(name), str):
            raise CourseError(f"{name} takes a list of names: write {name}=[{given[name]!r}].")
    options = [name for name in (*UNSPECIALIZED, "noinline", "debug") if given.get(name)]
    arguments = ", ".join(f"{name}={given[name]!r}" for name in options)
    home = "__import__('triton')"
    if is_gluon(kernel):
        home = "__import__('triton.experimental.gluon', fromlist=[''])"
    return f"{home}.jit({arguments})" if arguments else f"{home}.jit"


def _decorated(kernel: KernelInterface) -> AnyValues:
    """What `@triton.jit` was given, for a compiled or an interpreted kernel."""
    given: AnyValues = getattr(kernel, "kwargs", None) or vars(kernel)
    return given


def jit_specialize(
    kernel: KernelInterface, args: tuple[AnyValue, ...], kwargs: AnyValues
) -> tuple[list[tuple[str, str, AnyValue]], dict[str, Any]]:
    """What the JIT would specialize for these arguments on sm_90, and the unusual options.

    For each parameter its name; Triton's own name of its type, as "*fp32", "i32" or "constexpr";
    and "D" where the value is divisible by 16, "" or None where not, or the value itself for a
    constexpr (an integer equal to 1 becomes one).
    """
    inner = inner_kernel(kernel)
    decorated = _decorated(inner)
    jit = JITFunction(inner.fn, **{name: decorated[name] for name in UNSPECIALIZED})
    backend = make_backend(GPUTarget("cuda", 90, 32))
    bind = create_function_from_signature(jit.signature, jit.params, backend)
    _, specialization, options = bind(*args, **kwargs)
    known = vars(backend.parse_options(options))
    if unknown := ", ".join(sorted(set(options) - set(known))):
        raise TypeError(
            f"{unknown}: neither a parameter of the kernel nor an option of the compiler"
        )
    usual = vars(backend.parse_options({}))
    unusual = {name: known[name] for name in sorted(options) if known[name] != usual[name]}
    entries = zip(jit.params, specialization, strict=True)
    return [(parameter.name, *entry) for parameter, entry in entries], unusual
