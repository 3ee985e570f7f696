"""What Triton's interpreter lacks: filled where that can be done, and named where it cannot."""

import ast
import contextlib
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import triton
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.runtime import interpreter

from .errors import CannotInterpretError
from .libdevice import elementwise

language = triton.language


@contextlib.contextmanager
def gaps_filled() -> Iterator[None]:
    """While active, the interpreter also runs, as compiled code does:

    - functions of the language under names of the kernel's own module, as `exp = tl.exp`;
    - the methods of numbers that are arguments or count a loop, as `eps.to(tl.float32)`;
    - those functions of libdevice that NumPy or Python has.

    Where a kernel needs more of libdevice, or inline assembly, it raises CannotInterpretError.
    """
    if interpreter._implicit_cvt is _converted:
        yield  # within another
        return
    externals = dict(_externals())
    renamed = _Renamed(
        {(module.__name__, name): late for (module, name), late in externals.items()}
    )

    def patch_language(function: Any) -> Any:
        renamed.rebind(function.__globals__)
        scope = _plain_patch(function)
        unrolled = language.static_range
        scope.set_attr(
            language, "static_range", lambda *args, **kwargs: tuple(unrolled(*args, **kwargs))
        )
        return scope

    with contextlib.ExitStack() as stack:
        for owner, name, value in (
            (interpreter, "_patch_lang", patch_language),
            (interpreter, "_implicit_cvt", _converted),
            (interpreter, _course_counted.__name__, _course_counted),
            (interpreter.FunctionRewriter, "ast_transformer", _Loops()),
            (interpreter.InterpretedFunction, "rewritten_fn", _rewritten),
            (interpreter.InterpreterBuilder, "create_inline_asm", _inline_assembly),
            (interpreter.InterpreterBuilder, "create_extern_elementwise", _library_function),
            *((module, name, late) for (module, name), late in externals.items()),
        ):
            stack.enter_context(replaced(owner, name, value))
        stack.callback(renamed.restore)
        yield


_plain_patch, _plain_conversion = interpreter._patch_lang, interpreter._implicit_cvt
_rewritten: dict[Callable[..., Any], Callable[..., Any]] = {}
"""Kernels as the interpreter has rewritten them here, apart from those that it rewrites elsewhere."""
_MISSING = object()


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """While active, an attribute has this value; afterwards it is as before, or not there if it was not."""
    before = vars(owner).get(name, _MISSING)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


class _Renamed:
    """Names in modules of kernels that stand for functions of the language.

    The interpreter replaces those functions in Triton's own modules alone, and only while it runs a kernel.
    """

    def __init__(self, externals: dict[tuple[str, str], Callable[..., Any]]) -> None:
        """externals: by module and name, what is to be called in place of a function of libdevice. Some packages load
        libdevice once more by themselves, so that its functions are other objects there."""
        self._externals = externals
        self._known = {
            id(value): _looked_up(home, name)
            for home in (language.math, language)
            for name, value in vars(home).items()
            if language.core.is_builtin(value) or name in ("range", "static_range")
        }
        self._before: list[tuple[dict[str, Any], str, Any]] = []
        self._seen: set[int] = set()

    def rebind(self, names: dict[str, Any]) -> None:
        """Have what a module took over from Triton be looked up when it is called; and the language be found there."""
        if id(names) in self._seen:
            return
        self._seen.add(id(names))
        found = {name: self._replacement(value) for name, value in names.items()}
        new = {name: value for name, value in found.items() if value is not None}
        for name, value in {**new, "_language": language}.items():
            self._before.append((names, name, names.get(name, _MISSING)))
            names[name] = value

    def _replacement(self, value: Any) -> Callable[..., Any] | None:
        place = (getattr(value, "__module__", ""), getattr(value, "__name__", ""))
        return self._known.get(id(value)) or self._externals.get(place)

    def restore(self) -> None:
        for names, name, value in self._before:
            if value is _MISSING:
                del names[name]
            else:
                names[name] = value


def _looked_up(home: ModuleType, name: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: getattr(home, name)(*args, **kwargs)


def _externals() -> Iterator[tuple[tuple[ModuleType, str], Callable[..., Any]]]:
    """The functions of libdevice, by module and name: those for every GPU, which are empty, and those for NVIDIA's."""
    compiled = {
        name: value
        for name, value in vars(cuda_libdevice).items()
        if language.core.is_builtin(value)
    }
    for name, function in compiled.items():
        yield (cuda_libdevice, name), _with_semantic(function)
    for name, value in vars(libdevice).items():
        if callable(value):
            yield (
                (libdevice, name),
                _with_semantic(compiled[name])
                if name in compiled
                else _lacking(f"libdevice.{name}"),
            )


def _with_semantic(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, _semantic: Any = None, **kwargs: Any) -> Any:
        return function(*args, **kwargs, _semantic=interpreter.interpreter_semantic)

    return call


def _lacking(what: str) -> Callable[..., Any]:
    def call(*_: Any, **__: Any) -> Any:
        raise CannotInterpretError(what)

    return call


def _inline_assembly(*_: Any) -> Any:
    raise CannotInterpretError("inline assembly")


def _library_function(
    builder: Any, _: str, __: str, symbol: str, arguments: list[Any], result: Any, ___: bool
) -> Any:
    """One of libdevice's functions: what `tl.extern_elementwise` asks of the builder."""
    if symbol in ("__nv_fma", "__nv_fmaf", "__nv_fma_rn", "__nv_fmaf_rn"):
        return builder.create_fma(*arguments)
    function = elementwise(symbol, interpreter._get_np_dtype(result.scalar))
    if function is None:
        raise CannotInterpretError(f"the library function {symbol}")
    return interpreter.TensorHandle(function(*(each.data for each in arguments)), result.scalar)


def _converted(argument: Any) -> Any:
    """An argument of a kernel. The interpreter by itself leaves a number that is no integer as it is."""
    if isinstance(argument, float):
        handle = interpreter.TensorHandle(np.array([argument], dtype=np.float32), language.float32)
        return language.tensor(handle, language.float32)
    return _plain_conversion(argument)


class _Loops(interpreter.ASTTransformer):
    """The interpreter's own changes to a kernel's text; and what a loop counts is a scalar, and not Python's number."""

    def visit_For(self, node: ast.For) -> ast.For:  # noqa: N802  as NodeVisitor calls it
        self.generic_visit(node)
        node.iter = ast.Call(ast.Name(_course_counted.__name__, ast.Load()), [node.iter], [])
        return node


def _course_counted(over: Iterable[Any]) -> Iterable[Any]:
    """What `for … in over` gives a kernel, whose module finds this function by its name.

    A tl.static_range is no `range` here: what it counts are constants.
    """
    return map(_converted, over) if type(over) is range else over
