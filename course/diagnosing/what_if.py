"""The same kernel compiled with a change: whether the change does what a finding says."""

from collections.abc import Collection
from dataclasses import replace

from course.lowering.api import Lowered, LowerError, Request, lower_again
from course.lowering.arguments import Described, Text
from course.lowering.call_sites import CallSite
from course.lowering.memory_requests import requests_of

WHOLE = ("i32", "i64", "u32", "u64", "i16", "i8")


def not_divisible(lowered: Lowered) -> dict[str, str]:
    """The arguments that the compiler does not know to be divisible by 16, with their types."""
    signature = lowered.metadata.get("signature", {})
    known = {
        name
        for name, pairs in lowered.metadata.get("attributes", {}).items()
        if ["tt.divisibility", 16] in pairs
    }
    return {
        name: kind
        for name, kind in signature.items()
        if name not in known and (kind.startswith("*") or kind in WHOLE)
    }


def with_divisible(lowered: Lowered, names: Collection[str]) -> Lowered | None:
    """The kernel compiled with these arguments divisible by 16; None if it does not compile."""
    request, signature = lowered.request, lowered.metadata["signature"]
    assert request is not None
    texts: dict[str, Described] = {name: Text(f"{signature[name]}:16") for name in names}
    args = [texts.get(name, value) for name, value in zip(signature, request.args, strict=False)]
    kwargs = {name: texts.get(name, value) for name, value in request.kwargs.items()}
    return _recompiled(lowered, replace(request, args=args, kwargs=kwargs))


def with_options(
    lowered: Lowered, timeout_s: float | None = None, **options: int
) -> Lowered | None:
    """The kernel compiled with other options of the compiler; None if it does not compile, or not
    within `timeout_s` seconds of computing, where there is such a limit."""
    assert lowered.request is not None
    return _recompiled(lowered, lowered.request.with_options(**options), timeout_s)


def _recompiled(
    lowered: Lowered, request: Request, timeout_s: float | None = None
) -> Lowered | None:
    try:
        return lower_again(request, lowered.target.name, timeout_s)
    except LowerError:
        return None


def widths(lowered: Lowered) -> dict[tuple[CallSite, str], int]:
    """(call, kind of access) -> the bytes of a thread that one instruction moves."""
    requests = sorted(requests_of(lowered), key=lambda each: -each.bytes_per_thread)
    return {(each.path[0], each.kind): each.bytes_per_thread for each in requests}
