"""Which line of a kernel became which lines of each stage, from the locations that the compiler
writes into them.

A location may be a chain: a line of Triton's own library, called from a line of the reader's. What counts is the innermost
line that is the reader's own.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from course.errors import CourseError

Frame = tuple[str, int]
"""A file's path, or the name of a cell, and a line."""
Place = tuple[str, int, int]
"""A frame with its column, from 0; 0 too where none is told."""
Chain = tuple[Place, ...]
"""From the innermost place to the outermost."""


@dataclass(frozen=True)
class SourceLine:
    """A line of the kernel, or of a jitted function that it calls."""

    file: str
    number: int
    """In its file or cell, from 1."""
    text: str

    @property
    def frame(self) -> Frame:
        return self.file, self.number


class LineMap:
    """From lines of the kernel to lines of each stage, and back. All lines are counted from 1.

    The kernel's own file is meant where a line is given without one.
    """

    def __init__(self, source: list[SourceLine], stages: dict[str, Callable[[], str]]) -> None:
        """stages: what gives the text of each, by its name; asked when first needed, since
        disassembling takes long."""
        self.source = source
        self.stages = list(stages)
        self._texts = stages
        self._own = {line.frame: line for line in source}
        self._back: dict[str, dict[int, Frame]] = {}
        self._forward: dict[str, dict[Frame, list[int]]] = {}

    def of(self, line: int, file: str | None = None) -> dict[str, list[int]]:
        """The lines of each stage that came from this line of the kernel; a stage that has none is
        left out."""
        named = {
            each.file
            for each in self.source
            if file and (each.file == file or _base(each.file) == file)
        }
        frame = min(named, default=file or self.source[0].file), line
        found = {stage: self._read(stage)._forward[stage].get(frame, []) for stage in self.stages}
        return {stage: rows for stage, rows in found.items() if rows}

    def back(self, stage: str, row: int) -> SourceLine | None:
        """The line of the kernel that a stage's line came from; None for a line that came from
        none."""
        frame = self._read(stage)._back[stage].get(row)
        return self._own[frame] if frame else None

    def places(self, stage: str) -> Iterator[tuple[int, Chain]]:
        """For each line of a stage the places in the kernel that it came from: where it stands, and
        whence that was called."""
        for row, chain in READERS[stage](self._texts[stage]()):
            own = tuple(each for each in chain if each[:2] in self._own)
            if own:
                yield row, own

    def _read(self, stage: str) -> "LineMap":
        if stage not in self._back:
            if stage not in self._texts:
                raise CourseError(
                    f"There is no stage {stage!r}: there is {', '.join(self.stages)}."
                )
            back, forward = self._back.setdefault(stage, {}), self._forward.setdefault(stage, {})
            for row, chain in READERS[stage](self._texts[stage]()):
                frame = next((each[:2] for each in chain if each[:2] in self._own), None)
                if frame is not None:
                    back[row] = frame
                    forward.setdefault(frame, []).append(row)
        return self

    def __str__(self) -> str:
        """A table: for each line of the kernel how many lines of each stage came from it."""
        stages = self.stages
        rows = [" line " + "".join(f"{stage:>8}" for stage in stages)]
        for line in self.source:
            counts = [len(self.of(line.number, line.file).get(stage, [])) for stage in stages]
            rows.append(
                f"{line.number:5} "
                + "".join(f"{count or '':>8}" for count in counts)
                + f"  {line.text}"
            )
        return "\n".join(rows)

    __repr__ = __str__


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _path(folder: str, name: str) -> str:
    """The path as MLIR has it; a cell's name, which is in no folder, stays as it is."""
    return name if name.startswith(("<", "/")) or not folder else f"{folder}/{name}"


_PRINTED = re.compile(r'(?:"(\w+)"\((?:callsite\()*)*"([^"]*)":(\d+):\d+')


@dataclass(frozen=True)
class Origin:
    """Where a value of the IR comes from in the reader's own source."""

    line: int = 0
    """0 where it comes from none."""
    name: str = ""
    """The variable that it is, or a part of."""
    callers: tuple[str, ...] = ()
    """The variables that the calls which led there were assigned to."""


def origin_of(location: str, named: str, own: dict[Frame, int], returns: set[Frame]) -> Origin:
    """The origin of a value by its location, which MLIR prints in full:
    `loc("x"("kernel.py":10:26))`.

    named: the location that names it. own: the reader's own lines, with their numbers. returns: those of `return` statements,
        whose values are the caller's.
    """
    line = next((own[frame] for frame, _ in _printed(location) if frame in own), 0)
    places = [(frame, name) for frame, name in _printed(named) if frame in own]
    while places and not places[0][1] and places[0][0] in returns:
        places.pop(0)
    if not places or not places[0][1]:  # as what a call of tl.store makes on its way
        return Origin(line)
    return Origin(line, places[0][1], tuple(name for _, name in places[1:] if name))


def _printed(location: str) -> list[tuple[Frame, str]]:
    """The frames of a printed location, from the innermost, each with the variable that is assigned
    to there."""
    return [((match[2], int(match[3])), match[1] or "") for match in _PRINTED.finditer(location)]


# MLIR: `… loc(#loc5)` ends an operation, and `#loc5 = loc(…)` stands somewhere in the file.

_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_TRAILING = re.compile(r"loc\((#loc\d*|\".*)\)$")
_FILE = re.compile(r'"([^"]*)":(\d+):(\d+)')
_NAMED = re.compile(r'"[^"]*"\((.*)\)')


def _resolve(
    location: str, aliases: dict[str, str], resolved: dict[str, Chain], depth: int = 0
) -> Chain:
    """The frames of what stands between the parentheses of a `loc(…)`."""
    if location in resolved or depth > 50:
        return resolved.get(location, ())

    def inner(text: str) -> Chain:
        return _resolve(text, aliases, resolved, depth + 1)

    found: Chain = ()
    if location in aliases:
        found = inner(aliases[location])
    elif location.startswith("callsite("):
        callee, caller = _split_callsite(location[len("callsite(") : -1])
        found = inner(callee) + inner(caller)
    elif location.startswith("fused"):
        found = inner(location.partition("[")[2].partition(",")[0].rstrip("]"))
    elif match := _FILE.fullmatch(location):
        found = ((match[1], int(match[2]), int(match[3])),)
    elif match := _NAMED.fullmatch(location):
        found = inner(match[1])
    resolved[location] = found
    return found


def _split_callsite(text: str) -> tuple[str, str]:
    """`A at B` at the one " at " that is in no parentheses."""
    depth = 0
    for place, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0 and text.startswith(" at ", place):
            return text[:place], text[place + 4 :]
    return text, ""


def _mlir(text: str) -> Iterator[tuple[int, Chain]]:
    lines = text.split("\n")
    aliases = {match[1]: match[2] for line in lines if (match := _ALIAS.match(line))}
    resolved: dict[str, Chain] = {}
    opened: list[int] = []
    for row, line in enumerate(lines, start=1):
        code = line.strip()
        if code.startswith("#loc"):
            continue
        match = _TRAILING.search(code)
        found = _resolve(match[1], aliases, resolved) if match else ()
        # An operation with a region says its location where the region closes.
        if code.startswith("}") and opened:
            opener = opened.pop()
            if found:
                yield opener, found
        if code.endswith("{"):
            opened.append(row)
        elif found and not code.startswith("^"):
            yield row, found


# LLVM IR: `… !dbg !16`, with `!16 = !DILocation(line: 5, …, scope: !7, inlinedAt: !20)`.

_NODE = re.compile(r"^(!\d+) = (?:distinct )?!(\w+)\((.*)\)$")
_DEBUG = re.compile(r"!dbg (!\d+)")


def _llvm(text: str) -> Iterator[tuple[int, Chain]]:
    nodes = {
        match[1]: (match[2], _fields(match[3]))
        for line in text.split("\n")
        if (match := _NODE.match(line))
    }

    def file_of(scope: str) -> str:
        for _ in range(50):
            kind, fields = nodes.get(scope, ("", {}))
            if kind == "DIFile":
                return _path(fields.get("directory", "").strip('"'), fields["filename"].strip('"'))
            scope = fields.get("file") or fields.get("scope", "")
        return ""

    def chain(node: str) -> Chain:
        frames = []
        while node in nodes and nodes[node][0] == "DILocation":
            fields = nodes[node][1]
            frames.append(
                (file_of(fields["scope"]), int(fields.get("line", 0)), int(fields.get("column", 0)))
            )
            node = fields.get("inlinedAt", "")
        return tuple(frames)

    for row, line in enumerate(text.split("\n"), start=1):
        if line.startswith(" ") and (match := _DEBUG.search(line)):
            yield row, chain(match[1])


def _fields(text: str) -> dict[str, str]:
    return dict(re.findall(r'(\w+): ("[^"]*"|[^,]+)', text))


# PTX and AMD's assembly: `.loc 1 5 10` holds for the instructions after it, `.file 1 "…"` names the
# file, and a comment
# tells from where that line was called: `standard.py:263:15 @[ standard.py:293:36 @[
# kernel.py:12:13 ] ]`. From Triton 3.8 on
# PTX says `inlined_at 1 12 13` instead, which names the caller alone.

_ASSEMBLER_FILE = re.compile(r'\.file\s+(\d+)\s+(?:"([^"]*)"\s+)?"([^"]*)"')
_LOC = re.compile(r"\.loc\s+(\d+) (\d+) (\d+)")
_INLINED_AT = re.compile(r"inlined_at (\d+) (\d+) (\d+)")
_CALLED_FROM = re.compile(r"@\[ (.+?):(\d+):(\d+)")


def _files(lines: list[str]) -> dict[str, str]:
    """Every file's path by its number."""
    found = (match for line in lines if (match := _ASSEMBLER_FILE.search(line)))
    return {match[1]: _path(match[2] or "", match[3]) for match in found}


def _locations(lines: list[str]) -> Iterator[tuple[int, Chain]]:
    """For each `.loc` its index and its chain."""
    files = _files(lines)
    paths = {_base(path): path for path in files.values()}  # the comments tell a name alone
    current: Chain = ()
    begun: dict[Place, Chain] = {}
    in_inline_assembly = False
    for row, line in enumerate(lines):
        if match := _LOC.search(line):
            # LLVM counts on from line to line of inline assembly, which is all from one line of the
            # kernel.
            if not in_inline_assembly:
                outer: Chain = tuple(
                    (paths.get(file, file), int(number), int(at))
                    for file, number, at in _CALLED_FROM.findall(line)
                )
                if caller := _INLINED_AT.search(line):
                    place = files.get(caller[1], ""), int(caller[2]), int(caller[3])
                    outer = begun.get(
                        place, (place,)
                    )  # that line has told its own callers when it began
                current = ((files.get(match[1], ""), int(match[2]), int(match[3])), *outer)
                begun[current[0]] = current
            yield row, current
        elif "inline asm" in line:
            in_inline_assembly = "begin" in line


def _assembler(text: str) -> Iterator[tuple[int, Chain]]:
    lines = text.split("\n")
    located = dict(_locations(lines))
    current: Chain = ()
    for row, line in enumerate(lines):
        if row in located:
            current = located[row]
        elif line[:1] in ("\t", " ", "$") and _is_instruction(line):
            yield row + 1, current


def relocated(ptx: str, ours: set[Frame]) -> str:
    """The PTX with each location replaced by the innermost line of the reader's own in its chain.

    NVIDIA's assembler keeps of a chain the innermost line alone, which is often one of Triton's library.
    """
    lines = ptx.split("\n")
    numbers = {path: number for number, path in _files(lines).items()}
    for row, chain in _locations(lines):
        own = next((place for place in chain if place[:2] in ours and place[0] in numbers), None)
        if own is not None:
            lines[row] = f"\t.loc\t{numbers[own[0]]} {own[1]} 0"
    return "\n".join(lines)


def _is_instruction(line: str) -> bool:
    code = line.strip()
    return (
        bool(code)
        and not code.startswith((".", "//", ";", "{", "}", "$", "#"))
        and not code.endswith(":")
    )


# SASS: `//## File "…", line 5` stands before the instructions.

_SASS_FILE = re.compile(r'//## File "([^"]*)", line (\d+)')


def _sass(text: str) -> Iterator[tuple[int, Chain]]:
    current: Chain = ()
    for row, line in enumerate(text.split("\n"), start=1):
        if match := _SASS_FILE.search(line):
            path = match[1]
            current = (
                (_base(path) if "/<" in path else path, int(match[2]), 0),
            )  # the assembler puts a cell in a folder
        elif "/*" in line and ";" in line:
            yield row, current


READERS: dict[str, Callable[[str], Iterator[tuple[int, Chain]]]] = {
    "ttir": _mlir,
    "ttgir": _mlir,
    "llir": _llvm,
    "ptx": _assembler,
    "amdgcn": _assembler,
    "sass": _sass,
}
