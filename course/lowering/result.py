"""A lowered kernel: every stage, and what is known of it."""

import ast
import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from course import MODE
from course.errors import CourseError
from course.files import write_together
from course.gpus.limits import Target, target_of
from course.triton_internals.ir import compile_ir
from course.type_names import AnyValue, AnyValues

from . import passes as passes_module
from .arguments import Request
from .compile_errors import run_compiler
from .instruction_counts import Counts, count
from .layouts import Layouts, layouts_from
from .locations import Frame, relocated
from .occupancy import Resources, resources_of
from .passes import Passes
from .sass import ControlCode, disassembled
from .source_map import LineMap, SourceLine
from .worker import Compiled, compile_edited, layouts_of, passes_of

WHAT = {
    "ttir": "Triton IR: the program, on blocks",
    "glir": "Gluon IR: the program as it was written, its layouts with it",
    "ttgir": "Triton GPU IR: with a layout for each block",
    "llir": "LLVM IR: one thread",
    "ptx": "PTX: NVIDIA's virtual assembly",
    "amdgcn": "GCN: AMD's assembly",
    "cubin": "machine code",
    "hsaco": "machine code",
}


@dataclass(frozen=True, repr=False)
class Lowered(Compiled):
    """A kernel in all stages. Prints as an overview."""

    target: Target
    request: Request | None
    """None for a kernel that was compiled from edited IR."""

    @property
    def ttir(self) -> str:
        """Triton IR."""
        return self.text("ttir")

    @property
    def glir(self) -> str:
        """Gluon's IR, which a Gluon kernel has in place of Triton IR."""
        return self.text("glir")

    @property
    def ttgir(self) -> str:
        """Triton GPU IR."""
        return self.text("ttgir")

    @property
    def llir(self) -> str:
        """LLVM IR."""
        return self.text("llir")

    @property
    def ptx(self) -> str:
        """NVIDIA's virtual assembly."""
        return self.text("ptx")

    @property
    def amdgcn(self) -> str:
        """AMD's assembly."""
        return self.text("amdgcn")

    @property
    def cubin(self) -> bytes:
        """Machine code for an NVIDIA GPU."""
        return self._binary("cubin")

    @property
    def hsaco(self) -> bytes:
        """Machine code for an AMD GPU."""
        return self._binary("hsaco")

    @property
    def sass(self) -> str:
        """The machine code as text, with the source line of each instruction. NVIDIA; not sm_70."""
        text, _ = self._disassembly
        return text

    @property
    def control_codes(self) -> dict[int, ControlCode]:
        """What each SASS instruction waits for and sets, by its row in `sass`, from 1."""
        _, codes = self._disassembly
        return codes

    @cached_property
    def resources(self) -> Resources:
        """Registers, spills, shared memory, and the occupancy that follows."""
        return resources_of(self, self.target)

    @cached_property
    def lines(self) -> LineMap:
        """Which line of the kernel became which lines of each stage."""
        names = [*self.texts, *(["sass"] if self._has_sass else [])]
        return LineMap(self.source_lines(), {name: partial(self.text, name) for name in names})

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
        return passes_module.read(run_compiler(passes_of, self.request, self.target.name))

    @cached_property
    def layouts(self) -> Layouts:
        """Every layout of the TTGIR, and which thread holds which element."""
        returns = {
            (file, number)
            for file, statement, lines in self._statements()
            if isinstance(statement, ast.Return)
            for number in lines
        }
        values = run_compiler(layouts_of, self.ttgir, self.target.name)
        return layouts_from(self.ttgir, values, self.own, returns)

    def follow(self, text: str, *stages: str, most: int = 8) -> "Followed":
        """What became of the kernel's line that holds `text`, in these stages, by default in all.

        most: lines shown of a stage. Raises CourseError if no line, or more than one, holds the
        text.
        """
        holding = [
            line for line in self.source_lines() if isinstance(text, str) and text in line.text
        ]
        if len(holding) != 1:
            how_many = f"{len(holding)} lines" if holding else "No line"
            raise CourseError(f"{how_many} of {self.kernel} hold {text!r}: name one by its text.")
        (line,) = holding
        numbers = self._statement(line)
        lines_of = {}
        for stage in stages or self.readable():
            texts = self.text(stage).split("\n")
            rows = sorted(
                row for number in numbers for row in self.lines.rows(stage, number, line.file)
            )
            lines_of[stage] = [passes_module.bare(texts[row - 1]) for row in rows]
        return Followed(line, lines_of, most)

    def replace(self, *, ttir: str | None = None, ttgir: str | None = None) -> "Lowered":
        """Take an edited stage through those after it. Raises LowerError if it does not compile."""
        edited = {
            name: text for name, text in (("ttir", ttir), ("ttgir", ttgir)) if text is not None
        }
        if len(edited) != 1:
            raise CourseError("replace takes one edited stage, ttir or ttgir.")
        ((stage, text),) = edited.items()
        name, options = self.target.name, self.launch_options
        compiled = run_compiler(
            compile_edited, text, stage, self.kernel, name, options, self.listing
        )
        before = {"ttir": self.texts["ttir"]} if stage == "ttgir" and "ttir" in self.texts else {}
        texts = {**before, stage: text, **compiled.texts}
        return Lowered.of(replace(compiled, texts=texts), self.target, None)

    @classmethod
    def of(cls, compiled: Compiled, target: Target, request: Request | None) -> "Lowered":
        return cls(**vars(compiled), target=target, request=request)

    def launch(self, grid: tuple[int, ...], *args: AnyValue) -> None:
        """Launch the TTGIR as it stands, edited or not, on this machine's GPU.

        args: the runtime arguments alone, as the TTGIR's function takes them: no constants.
        """
        if not MODE.gpu or self.target != target_of(None):
            raise CourseError(f"A kernel for {self.target.name} cannot be launched here: {MODE}.")
        with tempfile.TemporaryDirectory(prefix="course-lower-") as folder:
            path = Path(folder) / f"{self.kernel}.ttgir"
            path.write_text(self.ttgir)
            compiled = compile_ir(path, self.target.triton, self.launch_options)
            compiled[(*grid, 1, 1)[:3]](*args)

    def diff(self, other: "Lowered", stage: str) -> str:
        """What differs from another kernel in a stage, as a unified diff without locations."""
        ours, theirs = (passes_module.without_locations(each.text(stage)) for each in (self, other))
        return passes_module.diff(ours, theirs, self._title, other._title)

    def dump(self, folder: str | Path) -> list[Path]:
        """Write each stage to a file named after the kernel, and metadata.json; return the paths.

        Raises CourseError, and has written nothing, if one of them cannot be written.
        """
        folder = Path(folder)
        stages: dict[str, str | bytes] = {**self.readable(), self._binary_name: self.binary}
        files = {folder / f"{self.kernel}.{stage}": content for stage, content in stages.items()}
        metadata = {"kernel": self.kernel, "target": self.target.name, **self.metadata}
        files[folder / "metadata.json"] = json.dumps(metadata, indent=1, sort_keys=True) + "\n"
        write_together(files)
        return list(files)

    def summary(self) -> dict[str, Any]:
        """All but the stages themselves, as JSON: target, resources, counts and metadata."""
        return {
            "kernel": self.kernel,
            "target": self.target.name,
            "resources": asdict(self.resources),
            "counts": {
                stage: {name: count for name, count in counts.items() if count}
                for stage, counts in self.counts.items()
            },
            **self.metadata,
        }

    def __str__(self) -> str:
        rows = [f"{self.kernel} for {self.target.name}"]
        for name, text in self.texts.items():
            rows.append(f"    {name:7} {text.count(chr(10)):6,} lines  {WHAT[name]}")
        binary = self._binary_name
        rows.append(f"    {binary:7} {len(self.binary):6,} bytes  {WHAT[binary]}")
        return "\n".join([*rows, *(f"    {line}" for line in str(self.resources).split("\n"))])

    __repr__ = __str__

    def readable(self) -> dict[str, str]:
        """Every stage that is text, with SASS if it can be had."""
        return {**self.texts, "sass": self.sass} if self._has_sass else self.texts

    def text(self, stage: str) -> str:
        """The text of a stage. Raises CourseError if the kernel has none of that name."""
        if stage == "sass":
            return self.sass
        if stage not in self.texts:
            stages = ", ".join(self.texts)
            raise CourseError(
                f"A kernel for {self.target.name} has no stage {stage}: it has {stages}."
            )
        return self.texts[stage]

    def source_lines(self) -> list[SourceLine]:
        """The lines of the kernel, and of the jitted functions that it calls."""
        return [
            SourceLine(function.file, number, text)
            for function in self.listing
            for number, text in enumerate(function.text.split("\n"), start=function.line)
        ]

    @cached_property
    def own(self) -> set[Frame]:
        """File and number of each line of the kernel, and of the jitted functions that it calls."""
        return {line.frame for line in self.source_lines()}

    @property
    def launch_options(self) -> AnyValues:
        """The compiler's options of the launch. In the metadata num_warps counts the warps of all
        partitions of a warp-specialized kernel."""
        warps = re.search(r'"ttg\.num-warps" = (\d+)', self.ttgir)
        options: AnyValues = self.metadata["options"]
        return {**options, "num_warps": int(warps[1])} if warps else options

    @cached_property
    def _disassembly(self) -> tuple[str, dict[int, ControlCode]]:
        ptx = relocated(self.ptx, self.own)
        return disassembled(self.cubin, ptx, self.assembler.command, self.target)

    @property
    def _title(self) -> str:
        return f"{self.kernel}, {self.target.name}"

    @property
    def _binary_name(self) -> str:
        return "cubin" if self.target.nvidia else "hsaco"

    @property
    def _has_sass(self) -> bool:
        return self.target.nvidia and self.target.name != "sm_70"

    def _binary(self, name: str) -> bytes:
        if name != self._binary_name:
            raise CourseError(f"A kernel for {self.target.name} ends in a {self._binary_name}.")
        return self.binary

    def _statement(self, line: SourceLine) -> range:
        """The lines of the statement that a line belongs to: a call may be written over several."""
        for file, statement, lines in self._statements():
            if file == line.file and not hasattr(statement, "body") and line.number in lines:
                return lines
        return range(line.number, line.number + 1)

    def _statements(self) -> Iterator[tuple[str, ast.stmt, range]]:
        """Every statement of the listing with its file and its lines there."""
        for function in self.listing:
            parsed = ast.parse(function.text)
            for node in ast.walk(ast.increment_lineno(parsed, function.line - 1)):
                if isinstance(node, ast.stmt):
                    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                    yield function.file, node, lines


@dataclass(frozen=True, repr=False)
class Followed:
    """A line of the kernel, and the lines of some stages that came from it. Prints them."""

    source: SourceLine
    stages: dict[str, list[str]]
    most: int
    """Lines printed of a stage."""

    def __str__(self) -> str:
        rows = [f"line {self.source.number}: {self.source.text.strip()}"]
        for stage, lines in self.stages.items():
            rows.append(stage if lines else f"{stage}: nothing")
            rows += [f"    {line}" for line in lines[: self.most]]
            if len(lines) > self.most:
                rows.append(f"    … and {len(lines) - self.most} more")
        return "\n".join(rows)

    __repr__ = __str__
