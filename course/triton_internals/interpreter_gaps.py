"""What Triton's interpreter lacks: filled where that can be done, and named where it cannot."""

import ast
import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import triton
from triton import InterpreterError
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.runtime import interpreter

from course.type_names import AnyValue, AnyValues, Function

from .conditions import NAMES, Conditions
from .errors import CannotInterpretError
from .libdevice import elementwise
from .patching import patched
from .reductions import extreme, summed

language = triton.language
_MISSING = object()


@contextlib.contextmanager
def gaps_filled() -> Iterator[None]:
    """While active, the interpreter also runs, as compiled code does:

    - functions of the language under names of the kernel's own module, as `exp = tl.exp`;
    - the methods of numbers that are arguments or count a loop, as `eps.to(tl.float32)`;
    - `min` and `max` of blocks, `and`, `or` and `not` of conditions, and `assert`;
    - constants asked for their `value`, and sums in half precision;
    - kernels that take names from the function around them;
    - grids that are lists;
    - conversions from and to 8 bits, rounded to the nearest;
    - products in several parts of bfloat16 (`bf16x3`, `bf16x6`), in float32;
    - tl.atomic_xchg of floats;
    - those functions of libdevice that NumPy or Python has.

    Where a kernel needs more of libdevice, or inline assembly, it raises CannotInterpretError.
    """
    if are_filled():
        yield  # within another
        return
    from . import float8  # only where kernels run
    from .remembered_types import types_remembered

    libraries = _libdevice_functions()
    taken_over = _TakenOverNames(libraries)

    def patch_language(function: Any) -> Any:
        taken_over.rebind(function.__globals__)
        if not language.core.is_builtin(language.core.load):  # a helper, called by a kernel
            return SimpleNamespace(restore=lambda: None)
        scope = _own_patch_lang(_BOTH_HOMES)
        for home in _BOTH_HOMES.__globals__.values():
            scope.set_attr(home, "static_range", _unrolled(home.static_range))
        return scope

    with (
        contextlib.ExitStack() as stack,
        types_remembered(),
        patched(interpreter, _patch_lang=patch_language, _patch_builtin=_patch_builtins),
        patched(interpreter, _implicit_cvt=_converted, _convert_float=float8.converted),
        patched(
            interpreter.interpreter_semantic, binary_op_sanitize_overflow_impl=_overflow_looked_for
        ),
        patched(interpreter, **NAMES, _course_counted=_course_counted, _course_value=_course_value),
        patched(interpreter.FunctionRewriter, ast_transformer=_KernelTransformer()),
        patched(interpreter.FunctionRewriter, _compile_and_exec=_with_closure),
        patched(interpreter.InterpretedFunction, rewritten_fn=_rewritten),
        patched(interpreter.interpreter_builder, options=_with_precisions()),
        patched(interpreter.GridExecutor, __init__=_with_grid),
        patched(interpreter.ReduceOps, sum=summed, min_max=extreme),
        patched(interpreter._interpreter, atomic_rmw=_atomic_update),
        patched(interpreter.InterpreterBuilder, create_inline_asm=_lacking("inline assembly")),
        patched(interpreter.InterpreterBuilder, create_extern_elementwise=_library_function),
    ):
        for module, functions in libraries:
            stack.enter_context(patched(module, **functions))
        stack.callback(taken_over.restore)
        yield


def _with_precisions() -> Any:
    """The interpreter's options, with all the precisions that compiled products may have."""
    options = interpreter.interpreter_builder.options
    known = dict.fromkeys((*options.allowed_dot_input_precisions, "bf16x3", "bf16x6"))
    return dataclasses.replace(options, allowed_dot_input_precisions=tuple(known))


def are_filled() -> bool:
    """Whether a tool runs kernels now, or a launch that is mended as the tools' are."""
    return interpreter._implicit_cvt is _converted


_own_patch_lang, _own_conversion = interpreter._patch_lang, interpreter._implicit_cvt
_BOTH_HOMES: Any = SimpleNamespace(__globals__={"language": language, "core": language.core})
"""In place of a kernel, whose module Triton looks at: where kernels find the language's functions,
and where Triton's own helpers do. Replaced at once, they need not be for each call of a helper,
which would take most of the time of a small one."""


@functools.cache
def _builtins_of(home: ModuleType | type) -> list[tuple[str, Function]]:
    return inspect.getmembers(home, language.core.is_builtin)


def _patch_builtins(home: ModuleType | type, builder: Any, scope: Any) -> None:
    """interpreter._patch_builtin, which looks through the whole module in each launch."""
    for name, member in _builtins_of(home):
        if getattr(home, name) is member:  # nothing has taken its place yet
            interpreter._patch_attr(home, name, member, builder, scope)


_own_definition: Callable[..., Function] = interpreter.FunctionRewriter._compile_and_exec
_own_executor = interpreter.GridExecutor.__init__
_own_overflow = interpreter.interpreter_semantic.binary_op_sanitize_overflow_impl
_rewritten: dict[Function, Function] = {}
"""Kernels as the interpreter has rewritten them while gaps are filled."""

Libraries = list[tuple[ModuleType, dict[str, Function]]]
"""Modules of libdevice, each with the functions that take the place of its own, by name."""


class _TakenOverNames:
    """Names in modules of kernels that stand for functions of the language.

    The interpreter replaces those functions in Triton's own modules alone, and only while it runs a
    kernel.
    """

    def __init__(self, libraries: Libraries) -> None:
        # Libdevice by names: a package may load it once more for itself, with functions of its own.
        self._libdevice = {
            (module.__name__, name): function
            for module, functions in libraries
            for name, function in functions.items()
        }
        self._language = {
            id(value): _looked_up(home, name)
            for home in (language.math, language)
            for name, value in vars(home).items()
            if language.core.is_builtin(value) or name in ("range", "static_range")
        }
        self._before: list[tuple[dict[str, Any], str, Any]] = []
        self._seen: set[int] = set()

    def rebind(self, names: AnyValues) -> None:
        """Have a module look up at each call what it took over from Triton."""
        if id(names) in self._seen:
            return
        self._seen.add(id(names))
        replacements = {name: self._replacement(value) for name, value in names.items()}
        new = {name: value for name, value in replacements.items() if value is not None}
        new |= {name: value for name, value in _OF_BLOCKS.items() if name not in names}
        for name, value in {**new, "_language": language}.items():
            self._before.append((names, name, names.get(name, _MISSING)))
            names[name] = value

    def _replacement(self, value: AnyValue) -> Function | None:
        place = (getattr(value, "__module__", ""), getattr(value, "__name__", ""))
        return self._language.get(id(value)) or self._libdevice.get(place)

    def restore(self) -> None:
        for names, name, value in self._before:
            if value is _MISSING:
                del names[name]
            else:
                names[name] = value


def _looked_up(home: ModuleType, name: str) -> Function:
    return lambda *args, **kwargs: getattr(home, name)(*args, **kwargs)


def _of_blocks(own: Function, name: str) -> Function:
    """Python's min or max, and the language's where a value of a kernel is among the arguments."""

    def call(*args: AnyValue, **kwargs: AnyValue) -> Any:
        if any(isinstance(value, language.tensor) for value in args):
            return functools.reduce(getattr(language, name), args)
        return own(*args, **kwargs)

    return call


_OF_BLOCKS = {"min": _of_blocks(min, "minimum"), "max": _of_blocks(max, "maximum")}
"""What the compiler knows these two as, by their names in Python."""


@functools.cache
def _libdevice_functions() -> Libraries:
    """The functions of libdevice: those for every GPU, which are empty, and those for NVIDIA's."""
    nvidia = {
        name: _with_semantic(value)
        for name, value in vars(cuda_libdevice).items()
        if language.core.is_builtin(value)
    }
    common = {
        name: nvidia.get(name) or _lacking(f"libdevice.{name}")
        for name, value in vars(libdevice).items()
        if callable(value)
    }
    return [(cuda_libdevice, nvidia), (libdevice, common)]


def _with_semantic(function: Function) -> Function:
    def call(*args: AnyValue, _semantic: Any = None, **kwargs: AnyValue) -> Any:
        return function(*args, **kwargs, _semantic=interpreter.interpreter_semantic)

    return call


def _unrolled(counted: Function) -> Function:
    return lambda *args, **kwargs: tuple(counted(*args, **kwargs))


def _lacking(what: str) -> Function:
    def call(*_: Any, **__: Any) -> Any:
        raise CannotInterpretError(what)

    return call


_own_atomic_update: Callable[..., np.ndarray] = interpreter._interpreter.atomic_rmw


def _atomic_update(
    operation: Any, pointers: np.ndarray, values: np.ndarray, *mask_and_order: Any
) -> np.ndarray:
    """An atomic update. The interpreter by itself exchanges integers alone: of floats, the bits."""
    floats = values.dtype
    if operation != interpreter._interpreter.RMW_OP.XCHG or floats.kind != "f":
        return _own_atomic_update(operation, pointers, values, *mask_and_order)
    bits = values.view(f"u{floats.itemsize}")
    return _own_atomic_update(operation, pointers, bits, *mask_and_order).view(floats)


def _library_function(
    builder: Any, _: str, __: str, symbol: str, arguments: list[Any], result: Any, ___: bool
) -> Any:
    """One of libdevice's functions: what `tl.extern_elementwise` asks of the builder."""
    if symbol in ("__nv_fma", "__nv_fmaf", "__nv_fma_rn", "__nv_fmaf_rn"):
        return builder.create_fma(*arguments)
    function = elementwise(symbol, interpreter._get_np_dtype(result.scalar))
    if function is None:
        raise CannotInterpretError(f"the library function {symbol}")
    arrays = (argument.data for argument in arguments)
    return interpreter.TensorHandle(function(*arrays), result.scalar)


def _converted(argument: AnyValue) -> Any:
    """An argument of a kernel; also a float, which the interpreter by itself leaves as it is."""
    if isinstance(argument, float):
        handle = interpreter.TensorHandle(np.array([argument], dtype=np.float32), language.float32)
        return language.tensor(handle, language.float32)
    return _own_conversion(argument)


class _KernelTransformer(Conditions, interpreter.ASTTransformer):
    """The interpreter's changes to a kernel's text; what a loop counts becomes a scalar, and
    conditions are joined as the compiler joins them."""

    def visit_For(self, node: ast.For) -> ast.For:  # noqa: N802  as NodeVisitor calls it
        self.generic_visit(node)
        node.iter = ast.Call(ast.Name(_course_counted.__name__, ast.Load()), [node.iter], [])
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:  # noqa: N802
        self.generic_visit(node)
        if node.attr != "value" or not isinstance(node.ctx, ast.Load):
            return node
        name = ast.Name(_course_value.__name__, ast.Load())
        return ast.copy_location(ast.Call(name, [node.value], []), node)


def _course_counted(over: Iterable[AnyValue]) -> Iterable[AnyValue]:
    """What `for … in over` gives a kernel, whose module finds this function by its name.

    A tl.static_range is no `range` here: what it counts are constants.
    """
    return map(_converted, over) if type(over) is range else over


def _course_value(held: AnyValue) -> Any:
    """`constant.value` in a kernel: the compiler's constants have one, and the interpreter hands a
    kernel what is in them."""
    plain = isinstance(held, (bool, int, float, str, language.dtype, type(None)))
    return held if plain else held.value


def _with_grid(self: Any, fn: Function, arg_names: list[str], grid: Any, *hooks: Any) -> None:
    """A launch, whose grid may be a list, or a function that returns one."""

    def as_tuple(numbers: Any) -> Any:
        return tuple(numbers) if isinstance(numbers, list) else numbers

    def computed(arguments: AnyValues) -> Any:
        return as_tuple(grid(arguments))

    _own_executor(self, fn, arg_names, computed if callable(grid) else as_tuple(grid), *hooks)


def _with_closure(self: Any, tree: ast.Module) -> Function:
    """A kernel as the interpreter has rewritten it, with what it takes from the function around it.

    By itself Triton defines it among its module's names, where those are not known.
    """
    own: FunctionType = self.fn
    if "<locals>" not in own.__qualname__:
        return _own_definition(self, tree)
    names = own.__code__.co_freevars
    around = ast.parse(f"def {own.__name__}({', '.join(names)}): return {own.__name__}").body[0]
    (inner,) = tree.body
    assert isinstance(around, ast.FunctionDef) and isinstance(inner, ast.FunctionDef)
    for each in [*inner.args.posonlyargs, *inner.args.args, *inner.args.kwonlyargs]:
        each.annotation = None  # evaluated once already, as the defaults were
    inner.args.defaults, inner.args.kw_defaults = [], [None] * len(inner.args.kwonlyargs)
    inner.returns = None
    around.body.insert(0, inner)
    outer = _own_definition(self, ast.fix_missing_locations(ast.Module([around], [])))
    code = outer(*names).__code__
    cells = dict(zip(names, own.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    new = FunctionType(code, own.__globals__, own.__name__, own.__defaults__, closure)
    new.__kwdefaults__, new.__annotations__ = own.__kwdefaults__, own.__annotations__
    return new


def _overflow_looked_for(*of_an_operation: AnyValue) -> None:
    """Where integers leave their type: looked for where that is an error, which it is in debugging
    alone. By itself the interpreter always looks, and does nothing with what it finds, in more time
    than all else takes that a kernel does with integers."""
    if interpreter.interpreter_builder.options.debug:
        _own_overflow(*of_an_operation)


def _call(self: Any, *args: AnyValue, **kwargs: AnyValue) -> Any:
    """Runs a helper of a kernel, or a kernel whose grid was forgotten, and leaves the language.

    By itself Triton replaces the language's functions on such a call and restores them after a
    launch alone, so one forgotten grid would break whatever compiles or runs next.
    """
    is_launch = language.core.is_builtin(language.core.load)  # else a kernel calls it
    scope = interpreter._patch_lang(self.fn)
    try:
        return self.rewrite()(*args, **kwargs)
    except Exception as error:
        if is_launch:
            name = self.fn.__name__
            raise InterpreterError(
                f"a kernel was called without a grid: write {name}[(programs,)](…)"
            ) from None
        raise InterpreterError(repr(error)) from error
    finally:
        scope.restore()


interpreter.InterpretedFunction.__call__ = _call
