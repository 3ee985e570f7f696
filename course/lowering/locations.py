"""Where the lines of a stage come from, by the locations that the compiler writes into it.

A location may be a chain: a line of Triton's own library, called from a line of the reader's.
"""

import functools
import re
from collections.abc import Callable, Iterator

from course.brackets import split_outside_brackets

Frame = tuple[str, int]
"""A file's path, or the name of a cell, and a line."""
Place = tuple[str, int, int]
"""A frame with its column, from 0; 0 too for one that is not known."""
Chain = tuple[Place, ...]
"""From the innermost place to the outermost."""
LocatedRows = Iterator[tuple[int, Chain]]
"""Lines of a stage, counted from 1, each with the chain that it comes from."""

# MLIR and LLVM IR write a letter outside ASCII byte by byte, as `\C3\A9`, and assembly as
# `\303\251`, of which NVIDIA's disassembler may take the last `\` for the end of a folder.

_HEXADECIMAL = re.compile(r"(?:\\[89A-F][0-9A-F])+")
_NEXT = r"[\\/]2[0-7][0-7]"  # a byte of a letter after the first, which tells how many there are
_OCTAL = re.compile(
    rf"\\3(?:[0-3][0-7]{_NEXT}|[45][0-7]{_NEXT}{_NEXT}|6[0-7]{_NEXT}{_NEXT}{_NEXT})"
)


def _from_hexadecimal(text: str) -> str:
    return _HEXADECIMAL.sub(lambda match: _decoded(match[0], 16), text)


def from_octal(assembly: str) -> str:
    """Assembly with the letters outside ASCII that are written in octal bytes."""
    return _OCTAL.sub(lambda match: _decoded(match[0], 8), assembly)


def _decoded(letters: str, base: int) -> str:
    return bytes(int(byte, base) for byte in re.findall(r"\w+", letters)).decode(errors="replace")


# MLIR: `… loc(#loc5)` ends an operation, and `#loc5 = loc(…)` stands somewhere in the file.

_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_TRAILING = re.compile(r"loc\((#loc\d*|\".*)\)$")
_FILE = re.compile(r'"([^"]*)":(\d+):(\d+)')
_NAMED = re.compile(r'"[^"]*"\((.*)\)')
_PRINTED = re.compile(r'(?:"(\w+)"\((?:callsite\()*)*"([^"]*)":(\d+):\d+')


def printed_frames(location: str) -> list[tuple[Frame, str]]:
    """The frames of a location that MLIR prints in full: `loc("x"("kernel.py":10:26))`.

    From the innermost, each with the variable that is assigned to there, or nothing.
    """
    matches = _PRINTED.finditer(_from_hexadecimal(location))
    return [((match[2], int(match[3])), match[1] or "") for match in matches]


def _mlir(text: str) -> LocatedRows:
    lines = _from_hexadecimal(text).split("\n")
    aliases = {match[1]: match[2] for line in lines if (match := _ALIAS.match(line))}

    @functools.cache
    def chain_of(location: str) -> Chain:
        """The places of what stands between the parentheses of a `loc(…)`."""
        if location in aliases:
            return chain_of(aliases[location])
        if location.startswith("callsite("):
            callee, caller = split_outside_brackets(location[len("callsite(") : -1], " at ")
            return chain_of(callee) + chain_of(caller)
        if location.startswith("fused"):
            return chain_of(location.partition("[")[2].partition(",")[0].rstrip("]"))
        if match := _FILE.fullmatch(location):
            return ((match[1], int(match[2]), int(match[3])),)
        match = _NAMED.fullmatch(location)
        return chain_of(match[1]) if match else ()

    opened: list[list[int]] = []  # the lines that open the regions of each operation around
    begun: list[int] = []  # those of an operation whose next region is about to open
    for row, line in enumerate(lines, start=1):
        code = line.strip()
        if code.startswith("#loc"):
            continue
        match = _TRAILING.search(code)
        chain = chain_of(match[1]) if match else ()
        # An operation with regions says its location where the last one closes.
        if code.startswith("}") and opened:
            begun = opened.pop()
            if chain:
                yield from ((opener, chain) for opener in begun)
        if code.endswith("{"):
            opened.append([*begun, row])
        elif chain and not code.startswith("^"):
            yield row, chain
        if "ttg.warp_specialize(" in code:  # its regions open in the lines below
            begun = [row]
        elif code != "}":
            begun = []


# LLVM IR: `… !dbg !16`, with `!16 = !DILocation(line: 5, …, scope: !7, inlinedAt: !20)`.

_NODE = re.compile(r"^(!\d+) = (?:distinct )?!(\w+)\((.*)\)$")
_DEBUG = re.compile(r"!dbg (!\d+)")
_FIELD = re.compile(r'(\w+): ("[^"]*"|[^,]+)')


def _llvm(text: str) -> LocatedRows:
    lines = _from_hexadecimal(text).split("\n")
    matches = (match for line in lines if (match := _NODE.match(line)))
    nodes = {match[1]: (match[2], dict(_FIELD.findall(match[3]))) for match in matches}

    def file_of(scope: str) -> str:
        for _ in range(50):
            kind, fields = nodes.get(scope, ("", {}))
            if kind == "DIFile":
                return _path(fields.get("directory", "").strip('"'), fields["filename"].strip('"'))
            scope = fields.get("file") or fields.get("scope", "")
        return ""

    def chain(node: str) -> Iterator[Place]:
        while node in nodes and nodes[node][0] == "DILocation":
            fields = nodes[node][1]
            line, column = int(fields.get("line", 0)), int(fields.get("column", 0))
            yield file_of(fields["scope"]), line, column
            node = fields.get("inlinedAt", "")

    for row, line in enumerate(lines, start=1):
        if line.startswith(" ") and (match := _DEBUG.search(line)):
            yield row, tuple(chain(match[1]))


# PTX and AMD's assembly: `.loc 1 5 10` holds for the instructions after it, `.file 1 "…"` names the
# file, and a comment tells from where that line was called:
# `standard.py:263:15 @[ standard.py:293:36 @[ kernel.py:12:13 ] ]`.
# From Triton 3.8 on PTX says `inlined_at 1 12 13` instead, which names the caller alone.

_ASSEMBLER_FILE = re.compile(r'\.file\s+(\d+)\s+(?:"([^"]*)"\s+)?"([^"]*)"')
_LOC = re.compile(r"\.loc\s+(\d+) (\d+) (\d+)")
_INLINED_AT = re.compile(r"inlined_at (\d+) (\d+) (\d+)")
_CALLED_FROM = re.compile(r"@\[ (.+?):(\d+):(\d+)")


def _assembler(text: str) -> LocatedRows:
    lines = text.split("\n")
    located = dict(_loc_directives(lines))
    chain: Chain = ()
    for row, line in enumerate(lines):
        if row in located:
            chain = located[row]
        elif line[:1] in ("\t", " ", "$") and _is_instruction(line):
            yield row + 1, chain


def _loc_directives(lines: list[str]) -> LocatedRows:
    """For each `.loc` its index, counted from 0, and its chain."""
    files = _files(lines)
    paths = {base(path): path for path in files.values()}  # the comments tell a name alone
    chain: Chain = ()
    chains: dict[Place, Chain] = {}
    in_inline_assembly = False
    for row, line in enumerate(lines):
        if match := _LOC.search(line):
            # LLVM counts on from line to line of inline assembly, which is all from one line.
            if not in_inline_assembly:
                callers: Chain = tuple(
                    (paths.get(file, file), int(number), int(column))
                    for file, number, column in _CALLED_FROM.findall(line)
                )
                if caller := _INLINED_AT.search(line):
                    place = files.get(caller[1], ""), int(caller[2]), int(caller[3])
                    callers = chains.get(place, (place,))  # with the callers told when it began
                chain = ((files.get(match[1], ""), int(match[2]), int(match[3])), *callers)
                chains[chain[0]] = chain
            yield row, chain
        elif "inline asm" in line:
            in_inline_assembly = "begin" in line


def _files(lines: list[str]) -> dict[str, str]:
    """Every file's path by its number."""
    matches = (match for line in lines if (match := _ASSEMBLER_FILE.search(line)))
    return {match[1]: from_octal(_path(match[2] or "", match[3])) for match in matches}


def _is_instruction(line: str) -> bool:
    code = line.strip()
    is_other = code.startswith((".", "//", ";", "{", "}", "$", "#")) or code.endswith(":")
    return bool(code) and not is_other


def relocated(ptx: str, own: set[Frame]) -> str:
    """The PTX with each location replaced by the innermost line of the reader's own in its chain.

    NVIDIA's assembler keeps the innermost line of a chain alone, which is often one of Triton's
    library. And LLVM counts on from line to line of inline assembly, and takes what follows to come
    from the line before it, so that the assembler would be told a line some lines below.
    """
    lines = ptx.split("\n")
    numbers = {path: number for number, path in _files(lines).items()}
    for row, chain in _loc_directives(lines):
        places = (place for place in chain if place[:2] in own and place[0] in numbers)
        if innermost := next(places, None):
            lines[row] = f"\t.loc\t{numbers[innermost[0]]} {innermost[1]} 0"
    return "\n".join(lines)


# SASS: `//## File "…", line 5` stands before the instructions.

_SASS_FILE = re.compile(r'//## File "([^"]*)", line (\d+)')


def _sass(text: str) -> LocatedRows:
    chain: Chain = ()
    for row, line in enumerate(text.split("\n"), start=1):
        if match := _SASS_FILE.search(line):
            path = base(match[1]) if "/<" in match[1] else match[1]  # a cell is put in a folder
            chain = ((path, int(match[2]), 0),)
        elif "/*" in line and ";" in line:
            yield row, chain


def base(path: str) -> str:
    """The last part of a path."""
    return path.rsplit("/", 1)[-1]


def _path(folder: str, name: str) -> str:
    """The path as MLIR has it; a cell's name, which is in no folder, stays as it is."""
    return name if name.startswith(("<", "/")) or not folder else f"{folder}/{name}"


READERS: dict[str, Callable[[str], LocatedRows]] = {
    "ttir": _mlir,
    "glir": _mlir,
    "ttgir": _mlir,
    "llir": _llvm,
    "ptx": _assembler,
    "amdgcn": _assembler,
    "sass": _sass,
}
