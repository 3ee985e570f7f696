"""How fast is a function? Medians on the GPU, beside its peers and a copy in the same run."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import torch

from course import MODE
from course.errors import CourseError

from .benchmarks import Function, Series, Study, study
from .result import Speeds
from .run_study import run_study
from .series import at_every_size


def bench(
    function: Function,
    against: Sequence[Function] = (),
    *,
    like: str | None = None,
    make: Callable[[int], tuple[torch.Tensor, ...]] | None = None,
    sizes: Sequence[int] = (),
    bytes: Callable[..., int] | None = None,
) -> Speeds:
    """Time `function` on this GPU against other functions, at several sizes.

    function, against: take the tensors that `make` returns.
    like: the name of a study of the course, as "vector_add": its sizes, inputs, bytes and peers are
        used.
    make: size -> the inputs, on the GPU. sizes: in elements. bytes: the inputs -> bytes that a call
        must move.

    Raises CourseError in CPU mode, where the interpreter's speed says nothing of a GPU's.
    """
    model = study(like)[1] if like is not None else None
    require_gpu(like)
    name = _name(function)
    if model is not None:
        ours, *_ = model.series
        peers = {peer: build for peer, build in model.series.items() if peer != ours}
        series = _series((function, *against), taken=peers) | peers
        return run_study(replace(model, name=name, xs=sizes or model.xs, series=series))
    if make is None or bytes is None or not sizes:
        raise CourseError(
            "bench needs make, sizes and bytes, or like= and the name of a study such as "
            "vector_add."
        )
    return run_study(Study(name, "elements", sizes, make, bytes, _series((function, *against))))


def _series(functions: Sequence[Function], taken: Collection[str] = ()) -> Series:
    """Series for functions that are the same at every size, under names that are all different."""
    series: Series = {}
    for function in functions:
        name, count = _name(function), 1
        while name in series or name in taken:
            count += 1
            name = f"{_name(function)} ({count})"
        series[name] = at_every_size(function)
    return series


def _name(function: Function) -> str:
    name: str = getattr(function, "__name__", None) or type(function).__name__
    return f"torch.{name}" if getattr(torch, name, None) is function else name


def require_gpu(name: str | None = None) -> None:
    """Raise CourseError in CPU mode, pointing to what was recorded."""
    if not MODE.gpu:
        name = name or "vector_add"
        raise CourseError(
            f"bench times kernels on an NVIDIA GPU, and this is CPU mode ({MODE.reason}): look at "
            f'what was recorded on one, with recorded("{name}") in a notebook or '
            f"`course recorded {name}` in a shell."
        )
