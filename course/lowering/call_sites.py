"""The calls in a kernel's source that touch memory, and which of them a place in the source belongs
to."""

import ast
import textwrap
from typing import Any

from .source_map import Chain, Place

KINDS = {"load": "load", "gather": "load", "store": "store", "scatter": "store"}

Call = tuple[str, int, int]
"""The file, line and column in which a call begins."""
CallPath = tuple[Call, ...]
"""A call that touches memory, and the calls that led there, from the innermost."""


class Calls:
    """All calls of a kernel and of the jitted functions that it calls."""

    def __init__(self, functions: list[dict[str, Any]]) -> None:
        """functions: text, file and first line of each, as `reference.listing_of` gives them."""
        self._calls: dict[str, list[tuple[Place, Place, ast.Call]]] = {}
        for function in functions:
            before = function["line"] - 1
            for node in ast.walk(ast.parse(textwrap.dedent(function["text"]))):
                if isinstance(node, ast.Call):
                    start = function["file"], node.lineno + before, node.col_offset
                    end = (
                        function["file"],
                        (node.end_lineno or 0) + before,
                        node.end_col_offset or 0,
                    )
                    self._calls.setdefault(function["file"], []).append((start, end, node))

    def path(self, chain: Chain, kind: str) -> CallPath:
        """The calls that the places of a chain stand in: the innermost one of a kind, the others of
        any."""
        return tuple(
            self._around(place, kind if depth == 0 else None) for depth, place in enumerate(chain)
        )

    def _around(self, place: Place, kind: str | None) -> Call:
        """The innermost call around a place. The compiler tells the place of a call's last
        argument, or of the call itself."""
        around = [
            (start, end)
            for start, end, node in self._calls.get(place[0], [])
            if start <= place < end and (kind is None or kind_of(node) == kind)
        ]
        within = [each for each in around if each[0] < place] or around
        return max(within)[0] if within else place

    def names(self, call: Call) -> frozenset[str]:
        """The names in what a call takes first: its pointer."""
        for start, _, node in self._calls.get(call[0], []):
            if start == call and node.args:
                return frozenset(
                    each.id for each in ast.walk(node.args[0]) if isinstance(each, ast.Name)
                )
        return frozenset()


def kind_of(node: ast.Call) -> str | None:
    """load, store or update, where a call is one, as tl.load(…) or descriptor.load(…)."""
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return "update" if name.startswith("atomic_") else KINDS.get(name)
