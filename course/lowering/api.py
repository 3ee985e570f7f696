"""lower: a kernel through every stage of the compiler, for any GPU, with none there."""

import ast
import base64
import json
import re
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from course import MODE
from course.errors import CourseError
from course.files import write_together
from course.gpus.limits import Target, target_of
from course.isolate.pool import call
from course.triton_internals.ir import compile_ir
from course.triton_internals.jit_functions import chosen_by_heuristics, parameters_of

from . import layouts as layouts_module
from . import passes as passes_module
from . import worker as stages
from .arguments import describe
from .instruction_counts import Counts, count
from .kernel_reference import reference_of
from .layouts import Layouts
from .passes import Passes
from .sass import Resources, resources_of, sass_of
from .source_map import LineMap, SourceLine, origin_of, relocated

TIMEOUT_S = 120

WHAT = {
    "ttir": "Triton IR: the program, on blocks",
    "ttgir": "Triton GPU IR: with a layout for each block",
    "llir": "LLVM IR: one thread",
    "ptx": "PTX: NVIDIA's virtual assembly",
    "amdgcn": "GCN: AMD's assembly",
    "cubin": "machine code",
    "hsaco": "machine code",
}


class LowerError(CourseError):
    """A kernel that does not compile, in a sentence. `details` has all that the compiler said."""

    def __init__(self, problem: str, details: str = "") -> None:
        super().__init__(problem)
        self.details = details

    def _render_traceback_(self) -> list[str]:
        # What a notebook shows in place of a traceback through the course's own code.
        more = (
            ["", "All that the compiler said: import sys; print(sys.last_value.details)"]
            if self.details
            else []
        )
        return [f"LowerError: {self}", *more]


@dataclass(frozen=True)
class Request:
    """What was asked of the compiler, so that it can be asked again."""

    reference: dict[str, Any]
    args: list[dict[str, Any]]
    kwargs: dict[str, dict[str, Any]]
    literal: bool


@dataclass(frozen=True)
class Lowered:
    """A kernel in all stages. Prints as an overview."""

    kernel: str
    target: Target
    texts: dict[str, str] = field(repr=False)
    """The stages that are text, in order."""
    binary: bytes = field(repr=False)
    metadata: dict[str, Any] = field(repr=False)
    """Signature, constants and options, as the compiler was told them, and what it says of the
    result."""
    listing: list[dict[str, Any]] = field(repr=False)
    """The texts of the kernel and of the jitted functions that it calls, with their places."""
    assembler: list[str] = field(repr=False)
    """The command by which Triton called NVIDIA's assembler."""
    assembler_log: str = field(repr=False)
    """What that assembler said."""
    request: Request | None = field(repr=False, default=None)
    """None where it was compiled from edited IR."""

    @property
    def ttir(self) -> str:
        """Triton IR."""
        return self._text("ttir")

    @property
    def ttgir(self) -> str:
        """Triton GPU IR."""
        return self._text("ttgir")

    @property
    def llir(self) -> str:
        """LLVM IR."""
        return self._text("llir")

    @property
    def ptx(self) -> str:
        """NVIDIA's virtual assembly."""
        return self._text("ptx")

    @property
    def amdgcn(self) -> str:
        """AMD's assembly."""
        return self._text("amdgcn")

    @property
    def cubin(self) -> bytes:
        """Machine code for an NVIDIA GPU."""
        return self._binary(nvidia=True)

    @property
    def hsaco(self) -> bytes:
        """Machine code for an AMD GPU."""
        return self._binary(nvidia=False)

    @cached_property
    def sass(self) -> str:
        """The machine code as text, with the source line of each instruction. NVIDIA; not sm_70."""
        ours = {line.frame for line in self._source_lines()}
        return sass_of(self.cubin, relocated(self.ptx, ours), self.assembler, self.target)

    @cached_property
    def resources(self) -> Resources:
        """Registers, spills, shared memory, and the occupancy that follows."""
        options = self.metadata["options"]
        return resources_of(
            self.binary, self.texts.get("amdgcn", ""), self.assembler_log,
            options["shared"], options["num_warps"], options.get("num_ctas", 1), self.target,
        )  # fmt: skip

    @cached_property
    def lines(self) -> LineMap:
        """Which line of the kernel became which lines of each stage."""
        names = [*self.texts, *(["sass"] if self._has_sass else [])]
        return LineMap(self._source_lines(), {name: partial(self._text, name) for name in names})

    @cached_property
    def counts(self) -> Counts:
        """The instructions that teach, by stage."""
        return count(self.readable())

    @cached_property
    def passes(self) -> Passes:
        """The IR before and after every pass of the compiler. Compiles once more."""
        if self.request is None:
            raise CourseError(
                "There are no passes over edited IR: ask the kernel that it came from."
            )
        request = self.request
        found = call_compiler(
            stages.passes_of,
            request.reference,
            request.args,
            request.kwargs,
            self.target.name,
            request.literal,
        )
        return passes_module.read(found["dump"])

    @cached_property
    def layouts(self) -> Layouts:
        """Every layout of the TTGIR, and which thread holds which element."""
        found = call_compiler(stages.layouts_of, self.ttgir, self.target.name)
        own = {line.frame: line.number for line in self._source_lines()}
        returns = {
            (file, number) for file, node in self._statements() if isinstance(node, ast.Return)
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }  # fmt: skip
        return layouts_module.from_json(
            found, lambda location, named: origin_of(location, named, own, returns)
        )

    def follow(self, text: str, *stages: str, most: int = 8) -> "Followed":
        """What became of the kernel's line that holds `text`, in these stages (in all, where none
        is named).

        most: lines shown of a stage. Raises CourseError where no line, or more than one, holds the text.
        """
        found = [
            line for line in self._source_lines() if isinstance(text, str) and text in line.text
        ]
        if len(found) != 1:
            how_many = f"{len(found)} lines" if found else "No line"
            raise CourseError(f"{how_many} of {self.kernel} hold {text!r}: name one by its text.")
        first, last = self._statement(found[0])
        shown = {}
        for stage in stages or self.readable():
            lines = self._text(stage).split("\n")
            rows = sorted(
                row
                for number in range(first, last + 1)
                for row in self.lines.of(number, found[0].file).get(stage, [])
            )
            shown[stage] = [passes_module.without_location(lines[row - 1]) for row in rows]
        return Followed(found[0], shown, most)

    def replace(self, *, ttir: str | None = None, ttgir: str | None = None) -> "Lowered":
        """Take an edited stage through the stages after it. Raises LowerError where it does not
        compile."""
        edited = {
            name: text for name, text in (("ttir", ttir), ("ttgir", ttgir)) if text is not None
        }
        if len(edited) != 1:
            raise CourseError("replace takes one edited stage, ttir or ttgir.")
        ((extension, text),) = edited.items()
        options = self.metadata["options"]
        found = call_compiler(
            stages.compile_again,
            text,
            extension,
            self.kernel,
            self.target.name,
            options,
            self.listing,
        )
        earlier = {
            name: self.texts[name] for name in self.texts if extension == "ttgir" and name == "ttir"
        }
        return _lowered(found, self.target, None, earlier | {extension: text})

    def launch(self, grid: tuple[int, ...], *args: Any) -> None:
        """Launch the TTGIR as it stands, edited or not, on this machine's GPU.

        args: the runtime arguments alone, as the TTGIR's function takes them: no constants.
        """
        if not MODE.gpu or self.target != target_of(None):
            raise CourseError(f"A kernel for {self.target.name} cannot be launched here: {MODE}.")
        with tempfile.TemporaryDirectory(prefix="course-lower-") as folder:
            path = Path(folder) / f"{self.kernel}.ttgir"
            path.write_text(self.ttgir)
            compiled = compile_ir(path, self.target.triton, self.metadata["options"])
            compiled[(*grid, 1, 1)[:3]](*args)

    def diff(self, other: "Lowered", stage: str) -> str:
        """What differs between this one and another in a stage, as a unified diff without source
        locations."""
        one, two = (passes_module.without_locations(each._text(stage)) for each in (self, other))
        return passes_module.diff(
            one, two, f"{self.kernel}, {self.target.name}", f"{other.kernel}, {other.target.name}"
        )

    def dump(self, folder: str | Path) -> list[Path]:
        """Write each stage to a file of its own, named after the kernel, and metadata.json; return
        the paths.

        Raises CourseError, and has written nothing, where one of them cannot be written.
        """
        folder = Path(folder)
        contents: dict[str, str | bytes] = {
            **self.readable(),
            "cubin" if self.target.nvidia else "hsaco": self.binary,
        }
        metadata = {"kernel": self.kernel, "target": self.target.name, **self.metadata}
        files = {
            folder / f"{self.kernel}.{extension}": content
            for extension, content in contents.items()
        }
        files[folder / "metadata.json"] = json.dumps(metadata, indent=1, sort_keys=True) + "\n"
        write_together(files)
        return list(files)

    def summary(self) -> dict[str, Any]:
        """What there is to say of it as JSON: target, resources, counts and metadata, without the
        stages themselves."""
        return {
            "kernel": self.kernel,
            "target": self.target.name,
            "resources": asdict(self.resources),
            "counts": {
                stage: {name: n for name, n in found.items() if n}
                for stage, found in self.counts.items()
            },
            **self.metadata,
        }

    def __str__(self) -> str:
        rows = [f"{self.kernel} for {self.target.name}"]
        rows += [
            f"    {name:7} {text.count(chr(10)):6,} lines  {WHAT[name]}"
            for name, text in self.texts.items()
        ]
        binary = "cubin" if self.target.nvidia else "hsaco"
        rows.append(f"    {binary:7} {len(self.binary):6,} bytes  {WHAT[binary]}")
        return "\n".join([*rows, *(f"    {line}" for line in str(self.resources).split("\n"))])

    __repr__ = __str__

    def readable(self) -> dict[str, str]:
        """Every stage that is text, SASS with them where it can be had."""
        return {**self.texts, "sass": self.sass} if self._has_sass else self.texts

    @property
    def _has_sass(self) -> bool:
        return self.target.nvidia and self.target.name != "sm_70"

    def _statement(self, line: SourceLine) -> tuple[int, int]:
        """The first and last line of the statement that a line belongs to: a call may be written
        over several."""
        for file, node in self._statements():
            last = node.end_lineno or node.lineno
            if (
                file == line.file
                and not hasattr(node, "body")
                and node.lineno <= line.number <= last
            ):
                return node.lineno, last
        return line.number, line.number

    def _statements(self) -> Iterator[tuple[str, ast.stmt]]:
        """Every statement of the listing with its file; its lines are numbered as there."""
        for function in self.listing:
            for node in ast.walk(
                ast.increment_lineno(
                    ast.parse(textwrap.dedent(function["text"])), function["line"] - 1
                )
            ):
                if isinstance(node, ast.stmt):
                    yield function["file"], node

    def _text(self, stage: str) -> str:
        if stage == "sass":
            return self.sass
        if stage not in self.texts:
            raise CourseError(
                f"A kernel for {self.target.name} has no stage {stage}: it has {', '.join(self.texts)}."
            )
        return self.texts[stage]

    def _binary(self, nvidia: bool) -> bytes:
        if self.target.nvidia != nvidia:
            name = "hsaco" if self.target.name.startswith("gfx") else "cubin"
            raise CourseError(f"A kernel for {self.target.name} ends in a {name}.")
        return self.binary

    def _source_lines(self) -> list[SourceLine]:
        return [
            SourceLine(function["file"], function["line"] + offset, text)
            for function in self.listing
            for offset, text in enumerate(function["text"].split("\n"))
        ]


@dataclass(frozen=True)
class Followed:
    """A line of the kernel, and the lines of some stages that came from it. Prints them."""

    source: SourceLine
    stages: dict[str, list[str]]
    most: int

    def __str__(self) -> str:
        lines = [f"line {self.source.number}: {self.source.text.strip()}"]
        for stage, found in self.stages.items():
            lines.append(stage if found else f"{stage}: nothing")
            lines += [f"    {line}" for line in found[: self.most]]
            if len(found) > self.most:
                lines.append(f"    … and {len(found) - self.most} more")
        return "\n".join(lines)

    __repr__ = __str__


def lower(kernel: Any, *args: Any, target: str | None = None, **kwargs: Any) -> Lowered:
    """Compile `kernel` for `target`, specialised as a launch with these arguments would be, and
    keep every stage.

    args, kwargs: what a launch is given, without the grid: tensors, numbers, tensor descriptors, constants,
        options of the compiler such as num_warps and num_stages. In place of a tensor or number a text may describe it:
        "*fp16" is a pointer to float16, "*fp16:16" one that is divisible by 16, "*fp16:16 large" one into a storage of
        more than 2 GB; "i32", "i64", "fp16", "fp32", "i32:16" and "i32:1" are numbers.
    What `@triton.heuristics` chooses is chosen; what `@triton.autotune` would choose must be given.
    target: "sm_75" to "sm_120", "gfx942", "gfx1100" and others; by default this machine's GPU, and sm_90 where there is none.

    Raises LowerError, with the kernel's line, where it does not compile; CourseError for what is no kernel or no target.
    """
    reference = reference_of(kernel, "lower")
    kwargs = kwargs | chosen_by_heuristics(kernel, parameters_of(kernel), args, kwargs)
    return lower_again(
        Request(reference, [*map(describe, args)], _described(kwargs), literal=False), target
    )


def lower_file(
    file: str | Path, name: str, signature: list[str], target: str | None = None, **options: Any
) -> Lowered:
    """Compile the kernel `name` of a file. signature: a text for each argument, in order; those of
    constexprs are literals."""
    if not Path(file).is_file():
        raise CourseError(f"There is no file {file}.")
    reference = {"file": str(Path(file).resolve()), "name": name}
    return lower_again(
        Request(
            reference, [{"text": text} for text in signature], _described(options), literal=True
        ),
        target,
    )


def _described(kwargs: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: describe(value) for name, value in kwargs.items()}


def lower_again(request: Request, target_name: str | None) -> Lowered:
    """Compile what was asked for before, for another target."""
    target = target_of(target_name)
    found = call_compiler(
        stages.compile_kernel,
        request.reference,
        request.args,
        request.kwargs,
        target.name,
        request.literal,
    )
    return _lowered(found, target, request, {})


def _lowered(
    found: dict[str, Any], target: Target, request: Request | None, earlier: dict[str, str]
) -> Lowered:
    refuse_problem(found)
    texts = {**earlier, **found["stages"]}
    ordered = {name: texts[name] for name in stages.TEXTS if name in texts}
    return Lowered(
        found["kernel"], target, ordered, base64.b64decode(found["binary"]), found["metadata"], found["listing"],
        found["assembler"], found["assembler_log"], request,
    )  # fmt: skip


def refuse_problem(found: dict[str, Any]) -> None:
    """Raise LowerError for a "problem" that came back from the child, with the kernel's line."""
    if "problem" in found:
        place = ""
        if "line" in found:
            where = "its cell" if found["file"].startswith("<cell") else found["file"]
            place = f"\nLine {found['line']} of {where}:  {found['text']}"
        details = found.get("details", "")
        raise LowerError(
            _VAGUE.sub(lambda vague: _clearer(vague[0], details), found["problem"]) + place, details
        )


_VAGUE = re.compile(
    "PassManager::run failed|error encountered during parsing|the compiler gives no reason"
)


def _clearer(vague: str, details: str) -> str:
    """What the compiler wrote beside words that say nothing: its first error, or the pass that
    failed."""
    if error := re.search(r"\berror: (.+?)\.?$", details, re.MULTILINE):
        return error[1]
    failed = re.search(r"Pipeline failed while executing \[`(\w+)`", details)
    return f"the compiler's pass {failed[1]} failed" if failed else vague


def call_compiler(function: Any, *args: Any) -> Any:
    """What a function returns that compiles in a child. Raises LowerError where the child did not
    come to its end."""
    ended = call(function, *args, kind="compile", timeout_s=TIMEOUT_S)
    words = ended.stderr.strip()
    if ended.how == "finished":
        if isinstance(ended.value, dict) and "problem" in ended.value:
            return {
                **ended.value,
                "details": "\n".join(filter(None, [ended.value.get("details", ""), words])),
            }
        return ended.value
    if ended.how == "out of time":
        file = args[0].get("file") if args and isinstance(args[0], dict) else None
        first = f"; before it compiles, it executes {file}" if file else ""
        raise LowerError(f"The compiler was stopped {ended.stopped}{first}.", words)
    if ended.how == "out of memory":
        raise LowerError(
            f"The compiler was stopped {ended.stopped}, more than it may take on this machine now.",
            words,
        )
    why = (
        f"was killed by {ended.signal}"
        if ended.signal
        else f"ended early ({ended.exception or f'exit code {ended.code}'})"
    )
    hint = next(
        (line for line in words.splitlines() if "error:" in line or "Assertion" in line), ""
    )
    raise LowerError(
        f"The compiler {why}." + (f" It said: {hint.strip()[:300]}" if hint else ""), words
    )
