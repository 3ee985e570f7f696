"""Why a kernel does not compile, in a sentence."""

import linecache
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import triton

from course.errors import CourseError
from course.files import advice
from course.isolate.border import InChild
from course.isolate.function_source import Definition
from course.triton_internals.errors import NO_REASON, NO_VALUE, CompileError, first_words

from .arguments import Request
from .gluon_refusals import plainer
from .kernel_reference import AsText, InFile
from .locations import READERS, Frame

P = ParamSpec("P")
R = TypeVar("R")


class LowerError(CourseError):
    """A kernel that does not compile, in a sentence. `details` has all that the compiler said.

    Its kind is "refused" by the compiler, "arguments" that do not fit, "no disk" to write to, or
    how the compiler's process ended (`isolate.ended.How`).
    """

    def __init__(self, problem: str, details: str = "", kind: str = "refused") -> None:
        super().__init__(problem, details, kind=kind)  # both, since both cross to another process
        self.problem, self.details = problem, details

    def __str__(self) -> str:
        return self.problem

    def _render_traceback_(self) -> list[str]:
        # What a notebook shows in place of a traceback through the course's own code.
        hint = "All that the compiler said: import sys; print(sys.last_value.details)"
        return [f"LowerError: {self}", *(["", hint] if self.details else [])]


def compile_error(error: CompileError, listing: Sequence[Definition], more: str = "") -> LowerError:
    """Why a kernel does not compile, with the line of its listing.

    more: what follows the reason in its sentence, with its punctuation.
    """
    place = place_of(error, listing)
    if place is None and _ASSEMBLER.search(error.reason):
        place = _inline_assembly(listing)
    function, line, text = place or (None, 0, "")
    subject = function.name if function else "It"
    sentence = f"{subject} does not compile: {first_sentence(error.reason)}"
    if more:
        sentence = sentence.rstrip(".") + more
    if function:
        sentence += f"\n{_line_text(function.file, line, text)}"
    return LowerError(sentence, str(error.__cause__ or error))


def _line_text(file: str, number: int, text: str) -> str:
    where = "its cell" if file.startswith("<cell") else file
    return f"Line {number} of {where}:  {text}"


def _inline_assembly(listing: Sequence[Definition]) -> tuple[Definition, int, str] | None:
    """The first line that has inline assembly, as `place_in` gives it."""
    for function in listing:
        for number, line in enumerate(function.text.split("\n"), start=function.line):
            if "inline_asm_elementwise(" in line:
                return function, number, line.strip()
    return None


def disk_error(error: OSError) -> LowerError:
    """What an OSError of the compiler's says: of the disk, or of a library that does not load."""
    if error.errno is None:
        return LowerError(
            f"Triton lacks a part of its own ({error}): "
            "install it anew, as `make clean setup` does.",
            kind="no disk",
        )
    folder = tempfile.gettempdir()
    return LowerError(
        f"The compiler could not write its files in {folder}: {error.strerror}; {advice(error)}.",
        kind="no disk",
    )


def place_of(
    error: CompileError, listing: Sequence[Definition]
) -> tuple[Definition, int, str] | None:
    """The innermost place in one of these functions at which the compiler or ptxas stopped, as
    `place_in` gives it."""
    for source, row in error.places:
        source = source.rstrip()
        for function in listing:
            before, found, _ = function.text.partition(source)
            if found:
                lines = source.split("\n")
                row = min(row, len(lines))  # Triton says one more at a noinline function's call
                line = function.line + before.count("\n") + row - 1
                return function, line, lines[row - 1].strip()
    return place_in(listing, ptx_frames(error.reason))


def place_in(
    listing: Sequence[Definition], frames: Sequence[Frame]
) -> tuple[Definition, int, str] | None:
    """The innermost of these frames that is in one of these functions: that function, the line's
    number in its file, and the line."""
    for file, line in frames:
        for function in listing:
            lines = function.text.split("\n")
            if file == function.file and 0 <= (row := line - function.line) < len(lines):
                return function, line, lines[row].strip()
    return None


def ptx_frames(reason: str) -> Sequence[Frame]:
    """The lines of source, the innermost first, of the line of PTX that ptxas refuses.

    None where the reason is not ptxas's, or its input is gone, which Triton keeps after an error.
    """
    refused = re.search(r"(\S+\.ptx), line (\d+); (?:error|fatal)", reason)
    if not refused or not (ptx := Path(refused[1])).is_file():
        return ()
    chains = dict(READERS["ptx"](ptx.read_text()))
    return [place[:2] for place in chains.get(int(refused[2]), ())]


def first_sentence(reason: str) -> str:
    """The first sentence of a compiler's words; if they are ptxas's, its own first error."""
    ptxas = r"ptxas[\w-]* [^;]*; (?:error|fatal) *: (.*?)(?= ptxas| Repro|$)"
    if match := re.search(ptxas, reason):
        return f"ptxas says: {match[1].strip().rstrip('.')}."
    return plainer(reason.split(". ")[0].rstrip(".") + ".")


def run_compiler(function: InChild[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What a function that compiles in a child returns. Raises LowerError if it fails."""
    ended = function.ended(*args, **kwargs)
    output = ended.stderr.strip()
    first = args[0] if args else None
    kernel = first.kernel if isinstance(first, Request) else first
    if ended.error is not None:
        known = ended.error.details if isinstance(ended.error, LowerError) else ""
        details = "\n".join(filter(None, [known, output]))
        own = kernel.source.definitions if isinstance(kernel, AsText) else ()
        raise LowerError(clearer(str(ended.error), details, own), details, ended.error.kind)
    if ended.how == "finished":
        return ended.value  # type: ignore[return-value]
    sentence = ended.sentence("The compiler")
    if ended.how == "out of time" and isinstance(kernel, InFile):
        sentence += f"; before it compiles, it executes {kernel.file}"
    elif ended.how == "out of time" and not ended.starved:
        sentence += ": large blocks take it long, and loops that tl.static_range writes out"
    if ended.how == "out of memory":
        sentence += ", more than it may take on this machine now"
    if ended.stopped:
        raise LowerError(f"{sentence}.", output, ended.how)
    lines = output.splitlines()
    errors = (line for line in lines if re.search("error:|Assertion|LLVM ERROR", line))
    hint = next(errors, "").strip()[:300]
    said = f" It said: {hint}" if hint else ""
    raise LowerError(f"{sentence}.{said}", output, ended.how)


_ASSEMBLER = re.compile(r"AMD LLVM \S+: AMD assembler rejected generated AMDGCN")
_VAGUE = re.compile(
    f"PassManager::run failed|error encountered during parsing|{NO_REASON}|{_ASSEMBLER.pattern}"
)


def clearer(sentence: str, details: str, definitions: Sequence[Definition] = ()) -> str:
    """A sentence with words that say nothing replaced by what the compiler wrote beside them.

    That is its first error, with its line, or the pass that failed.
    definitions: the functions whose files cannot be read here.
    """
    if not _VAGUE.search(sentence):
        return sentence
    if error := printed_error(details):
        known = _VAGUE.sub(lambda _: error.cause, sentence)
        is_placed = "\n" in sentence
        where = "" if is_placed else error.line(definitions)
        return "\n".join(filter(None, [known, where]))
    if failed := re.search(r"Pipeline failed while executing \[`(\w+)`", details):
        return _VAGUE.sub(f"the compiler's pass {failed[1]} failed", sentence)
    return sentence


@dataclass(frozen=True)
class PrintedError:
    """An error that the compiler has written to standard error."""

    cause: str
    kind: str
    frames: Sequence[Frame] = ()
    """The lines where it is, the innermost first."""

    def line(self, definitions: Sequence[Definition]) -> str:
        """As "Line 9 of kernel.py:  x = tl.load(x_ptr)"; empty where that is not known."""
        if place := place_in(definitions, self.frames):
            function, number, text = place
            return _line_text(function.file, number, text)
        own = [frame for frame in self.frames if not frame[0].startswith(_TRITON)]
        for file, number in own:
            if text := linecache.getline(file, number).strip():
                return _line_text(file, number, text)
        return ""


_TRITON = str(Path(triton.__file__).parent)

_NO_LAYOUT = (
    "this block has no layout: it was given none, or an AutoLayout, and meets no block whose "
    "layout is given; give it one, such as a gl.BlockedLayout"
)
_TWO_LAYOUTS = (
    "this block was given no layout, or an AutoLayout, and meets blocks of two layouts; give it "
    "one of them, and convert it with gl.convert_layout for the other"
)
_OTHER_WARPS = (
    r"the layout \1 does not fit: its warps must multiply to those that run it (the num_warps of "
    r"the launch, 4 by default, or the partition's), and its threads per warp to the hardware's, "
    r"32 on NVIDIA's"
)
_WHOLE_RING = "this takes one barrier, and was given several: write barriers.index(i) for number i"
_MEANINGS = (
    (r"'[\w.]+' op Failed to infer return type.*", _NO_LAYOUT),
    (r"Result has an invalid layout: (#ttg\.blocked<.*>).*", _OTHER_WARPS),
    (r"'ttng\.\w+' op barrier allocation must be a descriptor of .*", _WHOLE_RING),
    (r"'[\w.]+' op found conflicting encodings for value.*", _TWO_LAYOUTS),
    (r"failed to legalize operation 'tt\.return'.*", NO_VALUE),
    (
        r"unsupported MMA instruction for the given operand/result types.*",
        "tensor cores add up products of floats in tl.float32, and those of int8 in tl.int32: look "
        "at the type of what tl.dot adds to",
    ),
    (
        r"'tt\.\w+' op operand #\d must be 1-bit signless integer or .*",
        "a mask holds conditions, as offsets < n, and no numbers: an offset is added to a pointer",
    ),
    (
        r"'math\.(\w+)' op operand #\d+ must be floating-point-like.*",
        r"tl.\1 takes floating-point numbers, and was given integers: write 2.0 for 2, or convert "
        r"a block with .to(tl.float32)",
    ),
)
"""What errors of MLIR's mean, where their own words do not say it."""


def printed_error(printed: str) -> PrintedError | None:
    """The first error in what the compiler wrote to standard error; None if there is none."""
    error = re.search(r"^(?:(.+):(\d+):\d+: |.*\b)error: (.+?)[.:]?$", printed, re.MULTILINE)
    if error is None:
        return None
    cause, kind = error[3], first_words(error[3])
    if error[1] == "triton-amdgpu-assembler":
        instruction = printed[error.end() :].strip().partition("\n")[0]
        return PrintedError(
            f"AMD's assembler refuses `{instruction}` ({cause}): inline assembly must be in its "
            "own language, and PTX is NVIDIA's",
            kind,
        )
    cause = plainer(cause, _MEANINGS)
    if error[1] is None:
        return PrintedError(cause, kind)
    callers = re.findall(
        r"^(.+):(\d+):\d+: note: called from$", printed[error.end() :], re.MULTILINE
    )
    frames = [(error[1], error[2]), *callers]
    return PrintedError(cause, kind, [(file, int(number)) for file, number in frames])
