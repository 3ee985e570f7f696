"""The calls in a kernel's source that touch memory, and which of them a place belongs to."""

import ast
from collections import defaultdict

from .kernel_reference import Listing
from .locations import Chain, Place

KINDS = {"load": "load", "gather": "load", "store": "store", "scatter": "store"}

CallSite = tuple[str, int, int]
"""The file, line and column in which a call begins."""
CallPath = tuple[CallSite, ...]
"""A call that touches memory, and the calls that led there, from the innermost."""


class CallSites:
    """All calls of a kernel and of the jitted functions that it calls."""

    def __init__(self, listing: Listing) -> None:
        self._calls: dict[str, list[tuple[Place, Place, ast.Call]]] = defaultdict(list)
        """The calls in each file: where they begin, and where they end."""
        self._names: dict[CallSite, frozenset[str]] = {}
        for function in listing:
            file, before = function.file, function.line - 1
            for node in ast.walk(ast.parse(function.text)):
                if isinstance(node, ast.Call):
                    start = file, node.lineno + before, node.col_offset
                    end = file, (node.end_lineno or 0) + before, node.end_col_offset or 0
                    self._calls[file].append((start, end, node))
                    if node.args:  # of calls that begin at one place the outermost comes first
                        self._names.setdefault(start, _names_in(node.args[0]))

    def path(self, chain: Chain, kind: str) -> CallPath:
        """The calls around the places of a chain; the innermost one is of this kind."""
        kinds = [kind, *[None] * (len(chain) - 1)]
        return tuple(map(self._around, chain, kinds))

    def _around(self, place: Place, kind: str | None) -> CallSite:
        """The innermost call around a place, which is its own or that of its last argument."""
        around = [
            start
            for start, end, node in self._calls[place[0]]
            if start <= place < end and (kind is None or kind_of(node) == kind)
        ]
        within = [start for start in around if start < place] or around
        return max(within, default=place)

    def names(self, call: CallSite) -> frozenset[str]:
        """The names in what a call takes first: its pointer."""
        return self._names.get(call, frozenset())


def _names_in(node: ast.AST) -> frozenset[str]:
    return frozenset(part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def kind_of(node: ast.Call) -> str | None:
    """load, store or update, if a call is one, as tl.load(…) or descriptor.load(…)."""
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return "update" if name.startswith("atomic_") else KINDS.get(name)
