"""Where a kernel is, so that another process finds it: in a module, in a file, or in its source."""

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from triton.backends.compiler import GPUTarget

from course.errors import CourseError
from course.isolate.function_source import Source, importable, source_of
from course.triton_internals.driver import driver_of
from course.triton_internals.jit_functions import is_gluon, plain_function

SM_90 = GPUTarget("cuda", 90, 32)

Reference = dict[str, Any]
"""{"module": …, "name": …}, {"file": …, "name": …} or {"source": …}."""


def reference_of(kernel: Any, asker: str) -> Reference:
    """The kernel's module where it stands in one that can be imported, else its source.

    asker: the function that takes the kernel, for the CourseError that says that this is none.
    """
    function = plain_function(kernel)
    if function is None:
        raise CourseError(
            f"{asker} takes a kernel, a function under @triton.jit; this is a {type(kernel).__name__}."
        )
    if is_gluon(kernel) and asker != "lower":
        raise CourseError(
            f"{asker} takes no Gluon kernels yet, as {function.__name__} is one: lower, explore and draw.layout do."
        )
    if importable(kernel):
        return {"module": function.__module__, "name": function.__name__}
    return {"source": source_of(kernel).to_json()}


def kernel_at(reference: Reference, target: GPUTarget = SM_90) -> Any:
    """The kernel. Raises CourseError where its file holds none of that name, and what loading it
    raises.

    target: what its module is told where it asks Triton's driver for the GPU while it is loaded, and none is there.
    """
    try:
        return _loaded(reference)
    except RuntimeError as error:
        if "active drivers" not in str(error):
            raise
    # Not told from the first: there are modules that then go on to ask PyTorch, which knows of no
    # GPU.
    with driver_of(target, runs_trials=False):
        return _loaded(reference)


def _loaded(reference: Reference) -> Any:
    if "source" in reference:
        return Source.from_json(reference["source"]).load()
    name = reference["name"]
    module = (
        importlib.import_module(reference["module"])
        if "module" in reference
        else _module_at(Path(reference["file"]))
    )
    if not hasattr(module, name):
        kernels = [
            each for each, value in vars(module).items() if plain_function(value) is not None
        ]
        raise CourseError(
            f"There is no {name!r} in {reference.get('file')}: its kernels are {', '.join(kernels) or 'none'}."
        )
    return getattr(module, name)


def loaded_at(reference: Reference, target: GPUTarget = SM_90) -> Any:
    """The kernel as `kernel_at` gives it, where whatever loading it raises is a CourseError."""
    try:
        return kernel_at(reference, target)
    except CourseError:
        raise
    except (Exception, SystemExit) as error:
        file = reference.get("file", "The kernel")
        raise CourseError(f"{file} cannot be loaded: {type(error).__name__}: {error}") from error


def _module_at(path: Path) -> Any:
    """The module in a file, as a part of its package where it stands in one."""
    path = path.resolve()
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
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


def listing_of(*kernels: Any) -> list[dict[str, Any]]:
    """The text of kernels and of every jitted function of the user's that they can call: name,
    file, first line, text."""
    found: dict[Any, dict[str, Any]] = {}
    waiting = [plain_function(kernel) for kernel in reversed(kernels)]
    while waiting:
        function = waiting.pop()
        if function is None or function in found:
            continue
        lines, first = inspect.getsourcelines(function)
        found[function] = {
            "name": function.__name__,
            "file": function.__code__.co_filename,
            "line": first,
            "text": "".join(lines).rstrip("\n"),
        }
        names = function.__code__.co_names
        values = [function.__globals__[name] for name in names if name in function.__globals__]
        values += [
            getattr(each, name, None)
            for each in values
            if isinstance(each, ModuleType)
            for name in names
        ]
        values += [
            inner for each in values if isinstance(each, type) for inner in vars(each).values()
        ]
        used = [plain_function(value) for value in values]
        waiting += [
            each for each in used if each is not None and not each.__module__.startswith("triton.")
        ]
    return list(found.values())
