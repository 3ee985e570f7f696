"""One way to replace what belongs to Triton for a while."""

import contextlib
from collections.abc import Iterator
from typing import Any

from course.type_names import AnyValue, Function

_MISSING = object()


@contextlib.contextmanager
def patched(owner: Any, /, **values: AnyValue) -> Iterator[None]:
    """While active, these attributes of a module, class or object have these values.

    Afterwards each is as before, or missing if it was missing.
    """
    before = {name: vars(owner).get(name, _MISSING) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


def as_method(function: Function) -> Function:
    """A function that a class binds to its objects, unlike a method that is bound already."""
    return lambda instance, *args, **kwargs: function(instance, *args, **kwargs)
