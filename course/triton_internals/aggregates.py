"""Classes under Gluon's `@aggregate`, whose objects a kernel computes with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from triton import JITFunction

from course.type_names import AnyValue, AnyValues


@dataclass(frozen=True)
class AggregateFields:
    """What a class under `@aggregate` declares."""

    name: str
    fields: Sequence[str]
    defaults: AnyValues
    """field -> its value where it is given none."""
    methods: dict[str, JITFunction]
    has_own_init: bool
    """Whether the class has an `__init__` that its author wrote."""


def aggregate_fields(value: AnyValue) -> AggregateFields | None:
    """What a class under `@aggregate` declares; None for any other value."""
    if not isinstance(value, type) or not getattr(value, "__triton_aggregate__", False):
        return None
    known: Any = value
    return AggregateFields(
        known.__name__,
        [*known.__aggregate_fields__],
        known.__aggregate_defaults__,
        {name: each for name, each in vars(known).items() if isinstance(each, JITFunction)},
        has_own_init=not hasattr(known.hash_attrs[0], "__triton_builtin__"),
    )
