"""A stand-in for msgspec, which the page does not load: records, and no messages."""

import base64
import dataclasses
import json as _json
import math
import types
from typing import Any, dataclass_transform


@dataclass_transform(kw_only_default=False)
class Struct:
    """A record, as a dataclass."""

    _omit_defaults = _array_like = False

    def __init_subclass__(
        cls, *, frozen: bool = False, kw_only: bool = False, omit_defaults: bool = False,
        array_like: bool = False, tag: bool = False, forbid_unknown_fields: bool = False,
    ) -> None:  # fmt: skip
        for name, value in list(vars(cls).items()):
            if name in cls.__annotations__ and isinstance(value, (list, dict)):
                setattr(cls, name, dataclasses.field(default_factory=value.copy))
        dataclasses.dataclass(frozen=frozen, kw_only=kw_only)(cls)
        cls._omit_defaults, cls._array_like = omit_defaults, array_like


class Raw(bytes):
    """Bytes that are packed already."""


class DecodeError(ValueError):
    """What cannot be read."""


def to_builtins(value: Any) -> Any:
    """Records as dicts and lists, bytes as base64."""
    if isinstance(value, Struct):
        shown = [(each, getattr(value, each.name)) for each in dataclasses.fields(value)]  # type: ignore[arg-type]
        if value._array_like:
            return [to_builtins(held) for _, held in shown]
        return {
            each.name: to_builtins(held)
            for each, held in shown
            if not value._omit_defaults or held != _default(each)
        }
    if isinstance(value, dict):
        return {name: to_builtins(held) for name, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_builtins(held) for held in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise TypeError(f"This page does not write {type(value).__name__} as JSON.")


def _default(field: Any) -> Any:
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def _encoded(value: Any) -> bytes:
    # As in JavaScript, which reads it, what is no finite number is null.
    finite = _finite(to_builtins(value))
    return _json.dumps(finite, separators=(",", ":"), ensure_ascii=False).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(held) for name, held in value.items()}
    if isinstance(value, list):
        return [_finite(held) for held in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


json = types.SimpleNamespace(encode=_encoded)
structs = types.SimpleNamespace(replace=dataclasses.replace)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotImplementedError(f"This page packs no messages, so it has no msgspec.{name}.")
