"""Where a kernel is, so that another process finds it: a module, a file, or its own text."""

import contextlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from triton import KernelInterface

from course.errors import CourseError
from course.isolate.function_source import Definition, Source, source_of
from course.triton_internals.driver import GPUTarget
from course.triton_internals.jit_functions import inner_kernel, is_gluon, plain_function
from course.type_names import Function, Kernel, kind_of

SM_90 = GPUTarget("cuda", 90, 32)


class InModule(msgspec.Struct, frozen=True, tag=True):
    """A kernel of a module that can be imported."""

    module: str
    name: str

    def load(self) -> KernelInterface:
        return _named(importlib.import_module(self.module), self.name, self.module)


class InFile(msgspec.Struct, frozen=True, tag=True):
    """A kernel of a file, which is executed to find it."""

    file: str
    name: str

    @classmethod
    def of(cls, file: str | Path, name: str) -> "InFile":
        """Raises CourseError if there is no such file."""
        if not Path(file).is_file():
            raise CourseError(f"There is no file {file}.")
        return cls(str(Path(file).resolve()), name)

    def load(self) -> KernelInterface:
        return _named(_module_at(Path(self.file)), self.name, self.file)


class AsText(msgspec.Struct, frozen=True, tag=True):
    """A kernel of a notebook or script, with the text of all that it uses."""

    source: Source

    def load(self) -> KernelInterface:
        return self.source.load()


KernelReference = InModule | InFile | AsText


def function_of(kernel: Kernel, asker: str) -> Function:
    """The function under @triton.jit. Raises CourseError if there is none.

    asker: the function that takes the kernel, for that error's sentence.
    """
    if function := plain_function(kernel):
        return function
    kind = kind_of(kernel)
    raise CourseError(f"{asker} takes a kernel, a function under @triton.jit; this is {kind}.")


def reference_of(kernel: Kernel, asker: str, kernels_as_text: bool = False) -> KernelReference:
    """Where a kernel is: in its module if that can be imported, else its text.

    asker: the function that takes the kernel, for the CourseError if it cannot be taken.
    kernels_as_text: as `source_of` has it.
    """
    function = function_of(kernel, asker)
    _refuse_gluon(kernel, asker)
    named = getattr(sys.modules.get(function.__module__), function.__name__, None)
    if plain_function(named) is function and _is_found(function.__module__):
        return InModule(function.__module__, function.__name__)
    # The session has chosen what tuners choose.
    return AsText(source_of(inner_kernel(kernel), kernels_as_text))


def _refuse_gluon(kernel: Kernel, asker: str) -> None:
    if is_gluon(kernel) and asker not in ("lower", "diagnose", "aot.export"):
        raise CourseError(
            f"{asker} takes no Gluon kernels yet, as {function_of(kernel, asker).__name__} is one: "
            "lower, explore, diagnose, draw.layout, aot.export and simulate do."
        )


def _is_found(module: str) -> bool:
    """Whether another process finds a module by its name: not if it was made of a file by hand."""
    outermost = module.partition(".")[0]
    found = (finder.find_spec(outermost, None) for finder in sys.meta_path)
    return outermost != "__main__" and any(found)


def reference_of_text(kernel: Kernel | str, asker: str) -> KernelReference:
    """As `reference_of`, but a kernel may also be a text: "file.py:name"."""
    return _in_file(kernel) if isinstance(kernel, str) else reference_of(kernel, asker)


def _in_file(kernel: str) -> InFile:
    file, _, name = kernel.rpartition(":")
    if not file:
        raise CourseError(f"{kernel!r} names no kernel: write FILE.py:KERNEL.")
    return InFile.of(file, name)


def kernel_and_reference(kernel: Kernel | str, asker: str) -> tuple[Kernel, KernelReference]:
    """A kernel and where it is; of a text, "file.py:name", the kernel of that name, for which the
    file is executed here, with what it imports from its folder, and leaves no module behind."""
    if not isinstance(kernel, str):
        return kernel, reference_of(kernel, asker)
    reference = _in_file(kernel)
    with _own_modules(Path(reference.file)):
        named = loaded_at(reference)
    function_of(named, asker)
    _refuse_gluon(named, asker)
    return named, reference


@contextlib.contextmanager
def _own_modules(file: Path) -> Iterator[None]:
    """While active, modules from a file's folder are imported anew; after that, modules and the
    path are as they were. The file may have the name of one of Python's own modules."""
    folder = _package_of(file)[1]
    path, modules, writes = list(sys.path), dict(sys.modules), sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # it would be taken for newer than what is written at once
    for name in [name for name, module in modules.items() if _is_of(folder, name, module)]:
        del sys.modules[name]
    try:
        yield
    finally:
        sys.path[:], sys.dont_write_bytecode = path, writes
        for name, module in list(sys.modules.items()):
            if name not in modules and _is_of(folder, name, module):
                del sys.modules[name]
        sys.modules.update(modules)


def _is_of(folder: Path, name: str, module: ModuleType) -> bool:
    """Whether a module was imported from this folder, and is none of those that are installed."""
    from course.isolate.preloaded import is_installed  # which no page of the site can load

    file, outermost = getattr(module, "__file__", None) or "", folder / name.partition(".")[0]
    imported = file == f"{outermost}.py" or file.startswith(f"{outermost}{os.sep}")
    return imported and file.endswith(".py") and not is_installed(file)


def kernel_at(reference: KernelReference, target: GPUTarget = SM_90) -> KernelInterface:
    """The kernel. Raises CourseError if its file has none of that name, and what loading it raises.

    target: what its module is told if it asks Triton or PyTorch for the GPU while it is loaded, and
        there is none.
    """
    try:
        return reference.load()
    except (RuntimeError, AssertionError) as error:
        if not re.search(r"active drivers|active GPU|NVIDIA|CUDA|HIP", str(error)):
            raise
    # Not told from the first: a module may do without a GPU, and go further with one.
    from .gpu_stand_in import gpu_stand_in  # few modules need it

    with gpu_stand_in(target):
        return reference.load()


def loaded_at(reference: KernelReference, target: GPUTarget = SM_90) -> KernelInterface:
    """The kernel as `kernel_at` gives it, but whatever loading it raises is a CourseError."""
    try:
        return kernel_at(reference, target)
    except CourseError:
        raise
    except (Exception, SystemExit) as error:
        what = reference.file if isinstance(reference, InFile) else "The kernel"
        raise CourseError(f"{what} cannot be loaded: {type(error).__name__}: {error}") from error


def _named(module: ModuleType, name: str, place: str) -> Any:
    if hasattr(module, name):
        return getattr(module, name)
    kernels = [known for known, value in vars(module).items() if plain_function(value) is not None]
    listed = ", ".join(kernels) or "none"
    raise CourseError(f"There is no {name!r} in {place}: its kernels are {listed}.")


def _module_at(path: Path) -> ModuleType:
    """The module in a file, as a part of its package if it stands in one."""
    parts, folder = _package_of(path)
    sys.path.insert(0, str(folder))
    if len(parts) > 1:
        return importlib.import_module(".".join(parts))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise CourseError(f"{path} is no Python file: its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _package_of(path: Path) -> tuple[list[str], Path]:
    """The parts of a module's name, and the folder that it is imported from."""
    path = path.resolve()
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    return parts, folder


Listing = tuple[Definition, ...]
"""The text of a kernel and of every jitted function of the reader's own that it can call."""


def listing_of(*kernels: KernelInterface) -> Listing:
    """The text of these kernels and of what they can call, each once."""
    listing: dict[Function, Definition] = {}
    waiting = [plain_function(kernel) for kernel in reversed(kernels)]
    while waiting:
        function = waiting.pop()
        if function is None or function in listing:
            continue
        lines, first = inspect.getsourcelines(function)
        text = textwrap.dedent("".join(lines)).rstrip("\n")  # as the compiler has it
        file = function.__code__.co_filename
        listing[function] = Definition(function.__name__, text, file, first)
        called = map(plain_function, _used_values(function))
        waiting += [
            other for other in called if other and not other.__module__.startswith("triton.")
        ]
    return tuple(listing.values())


def _used_values(function: Function) -> list[Any]:
    """What a function may call: its globals, members of modules among them, methods of classes."""
    names = function.__code__.co_names
    values = [function.__globals__[name] for name in names if name in function.__globals__]
    modules = [value for value in values if isinstance(value, ModuleType)]
    values += [getattr(module, name, None) for module in modules for name in names]
    classes = [value for value in values if isinstance(value, type)]
    return values + [member for kind in classes for member in vars(kind).values()]
