"""The same kernel compiled with a change: whether the change does what a finding says."""

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


def with_divisible(lowered: Lowered, names: list[str]) -> Request:
    """What was compiled, with these arguments divisible by 16."""
    request = lowered.request
    assert request is not None
    signature: dict[str, str] = lowered.metadata["signature"]
    order = list(signature)
    texts: dict[str, Described] = {name: Text(f"{signature[name]}:16") for name in names}
    args = [texts.get(order[place], value) for place, value in enumerate(request.args)]
    kwargs = {name: texts.get(name, value) for name, value in request.kwargs.items()}
    return replace(request, args=args, kwargs=kwargs)


def recompiled(lowered: Lowered, request: Request) -> Lowered | None:
    """The kernel compiled for another request; None if it does not compile."""
    try:
        return lower_again(request, lowered.target.name)
    except LowerError:
        return None


def widths(lowered: Lowered) -> dict[tuple[CallSite, str], int]:
    """For each call and kind of access the bytes of a thread that one instruction moves."""
    requests = sorted(requests_of(lowered), key=lambda each: -each.bytes_per_thread)
    return {(each.path[0], each.kind): each.bytes_per_thread for each in requests}
