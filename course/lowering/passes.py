"""The IR before and after every pass of the compiler, from its own dump."""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import SupportsIndex, overload

from course.errors import CourseError

# `… Before TritonGPUCoalesce (tritongpu-coalesce) ('builtin.module' operation)`; from Triton 3.8 on
# `… Before TritonGPUCoalesce: tritongpu-coalesce{options} ('builtin.module' operation)`. The class
# may be in an `(anonymous namespace)::`, and a pass without a name is `unknown<…>`.
HEADER = re.compile(
    r"^// -----// IR Dump Before (?:\(anonymous namespace\)::)?([^\s:]+):? "
    r"(?:\(([^)]*)\)|([\w-]+)\S*.*?) "
    r"\('([\w.]+)' operation.*$",
    re.MULTILINE,
)
TITLE = re.compile(r"^// -----// ", re.MULTILINE)
LOCATION = re.compile(
    r" ?loc\((?:#loc\d*|unknown|callsite\(.*?\)|\"[^\"]*\"(?:\(#loc\d*\)|:\d+:\d+)?)\)"
)
DEBUG_NODE = re.compile(r", !dbg !\d+")


@dataclass(frozen=True, repr=False)
class Pass:
    """One pass of the compiler over a kernel. The IR is without source locations."""

    number: int
    name: str
    """As on the compiler's command line: `tritongpu-coalesce`."""
    title: str
    """The name of its class."""
    before: str
    after: str
    """Empty for the last one, which is followed by another language."""

    @property
    def changed(self) -> bool:
        return self.before != self.after

    def diff(self) -> str:
        """What it changed, as a unified diff."""
        return diff(self.before, self.after, "before", f"after {self.name}")

    def __str__(self) -> str:
        return f"{self.number:3}  {self.name}" + ("" if self.changed else "  (changed nothing)")

    __repr__ = __str__


class Passes(list[Pass]):
    """All passes, in order; a name gives the first one of it. Prints those with a change."""

    @overload
    def __getitem__(self, key: SupportsIndex | str) -> Pass: ...
    @overload
    def __getitem__(self, key: slice) -> list[Pass]: ...
    def __getitem__(self, key: SupportsIndex | str | slice) -> Pass | list[Pass]:
        if not isinstance(key, str):
            return super().__getitem__(key)
        for each in self:
            if key in (each.name, each.title):
                return each
        raise CourseError(
            f"No pass is called {key!r}: `passes` prints those that changed something."
        )

    @property
    def changed(self) -> list[Pass]:
        """Those that changed something."""
        return [each for each in self if each.changed]

    def diff(self, first: int | str, second: int | str) -> str:
        """What changed from after one pass to after another."""
        one, other = self[first], self[second]
        return diff(one.after, other.after, f"after {one.name}", f"after {other.name}")

    def __str__(self) -> str:
        changed = self.changed
        head = f"{len(changed)} of {len(self)} passes changed something:"
        return "\n".join([head, *map(str, changed)])

    __repr__ = __str__


def diff(one: str, other: str, one_name: str, other_name: str) -> str:
    """A unified diff of two texts."""
    lines = one.splitlines(), other.splitlines()
    return "\n".join(difflib.unified_diff(*lines, one_name, other_name, lineterm=""))


def without_locations(text: str) -> str:
    """MLIR without its source locations, which hide what changed."""
    lines = (line for line in text.split("\n") if not line.startswith("#loc"))
    return "\n".join(LOCATION.sub("", line).rstrip() for line in lines).strip()


def without_location(line: str) -> str:
    """A line of any stage without its source location, and as it is otherwise."""
    line = DEBUG_NODE.sub("", LOCATION.sub("", line))
    return re.sub(r"\s*// \S+\.py:\d+:\d+.*$", "", line).rstrip()


def bare(line: str) -> str:
    """A line of any stage without its source location, comments, indentation and address."""
    line = DEBUG_NODE.sub("", LOCATION.sub("", line))
    return " ".join(re.sub(r"\s*//.*$|^\s*/\*[0-9a-f]{4,}\*/\s*", "", line).split())


def read(dump: str) -> Passes:
    """The passes in the compiler's dump, which prints the IR before each."""
    headers = [*_headers(dump)]
    # Some passes print their own steps after the IR before them, under other titles.
    titles = ((header.end(), TITLE.search(dump, header.end())) for header in headers)
    texts = [without_locations(dump[i : title.start() if title else None]) for i, title in titles]
    afters = [*texts, ""][1:]
    return Passes(
        Pass(number, *_names(header), before, after)
        for number, (header, before, after) in enumerate(zip(headers, texts, afters, strict=True))
    )


def _headers(dump: str) -> Iterator[re.Match[str]]:
    """The headers of all passes, without those over one function inside the inliner, which are a
    part of it. The IR of the others over one function is that of the whole module, too."""
    in_inliner = False
    for header in HEADER.finditer(dump):
        if header[4] == "builtin.module":
            in_inliner = "Inline" in header[1]
        elif in_inliner:
            continue
        yield header


def _names(header: re.Match[str]) -> tuple[str, str]:
    """The name and the title of a pass."""
    name, title = header[2] or header[3], header[1].removesuffix("Pass")
    return title if name == "unknown" else name, title
