"""An exported function: what there is to say of it besides its machine code. It stands as JSON in the function's header."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from course.errors import CourseError

from .identifiers import parameter_names
from .scalars import scalar_of
from .signature import Argument, Constant, Options
from .writing import MARK

JSON_LINE = "// course-aot: "


@dataclass(frozen=True)
class Function:
    """A kernel for one signature, as a C function."""

    name: str
    """Of the C function, as add_1a2b3c4d_0d1d: out-name, hash, hints."""
    out_name: str
    kernel: str
    target: str
    triton: str
    """The version that compiled it."""
    arguments: tuple[Argument, ...]
    """Of the kernel, with its constants."""
    grid: str
    num_warps: int
    """As was asked for."""
    threads: int
    """Of a program, as it is launched: a compiler that gives warps different work may add some."""
    num_stages: int
    shared_bytes: int
    registers: int
    """Per thread."""
    maxnreg: int | None = None
    enable_fp_fusion: bool | None = None

    @property
    def options(self) -> Options:
        """What the compiler was told besides the signature."""
        return Options(self.num_warps, self.num_stages, self.maxnreg, self.enable_fp_fusion)

    @property
    def runtime(self) -> tuple[Argument, ...]:
        """The arguments that are given at run time, with those that must be 1."""
        return tuple(each for each in self.arguments if not each.constant)

    @property
    def passed(self) -> tuple[Argument, ...]:
        """The parameters of this C function, after the stream."""
        return tuple(each for each in self.arguments if each.passed)

    @property
    def constants(self) -> dict[str, Constant]:
        return {each.name: each.value for each in self.arguments if each.constant}

    @cached_property
    def c_names(self) -> dict[str, str]:
        """By argument the C parameter's name."""
        return parameter_names([each.name for each in self.arguments])

    def parameters(self, arguments: tuple[Argument, ...]) -> str:
        """As in a C prototype."""
        return ", ".join(f"{c_type(each)} {self.c_names[each.name]}" for each in arguments)

    @property
    def prototype(self) -> str:
        return f"CUresult {self.name}({', '.join(filter(None, ['CUstream stream', self.parameters(self.passed)]))})"

    @property
    def algorithm(self) -> str:
        """What is fixed besides hints, in the words of Triton's own linker."""
        values = [each.value for each in self.arguments if each.constant] + [
            1 for each in self.arguments if each.hint == 1
        ]
        return f"{'x'.join(map(str, values))}_{self.options.words}"

    def to_json(self) -> dict[str, Any]:
        arguments = [
            {
                "name": each.name,
                "type": each.type and each.type.name,
                "hint": each.hint,
                "value": each.value,
            }
            for each in self.arguments
        ]
        return {**asdict(replace(self, arguments=())), "arguments": arguments}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Function":
        arguments = tuple(
            Argument(each["name"], scalar_of(each["type"] or ""), each["hint"], each["value"])
            for each in content["arguments"]
        )
        return cls(**{**content, "arguments": arguments})


def c_type(argument: Argument) -> str:
    assert argument.type is not None
    return argument.type.c


def read_header(path: Path) -> dict[str, Any]:
    """The JSON in a header of ours: "function", or "linked". Raises CourseError for any other file."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError as error:
        raise CourseError(f"{path} could not be read: {error.strerror}.") from error
    found = [line for line in lines[:3] if line.startswith(JSON_LINE)]
    if lines and lines[0].startswith(MARK) and found:
        digest, _, text = found[0].removeprefix(JSON_LINE).partition(" ")
        if digest == _digest(text):
            return _readable(json.loads(text), path)
    raise CourseError(
        f"{path} is no header that `course aot` wrote, or was changed: export the kernel again."
    )


def _readable(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """A header's content, where each of its functions is described as it is here."""
    try:
        for function in content["functions"] if "linked" in content else [content["function"]]:
            Function.from_json(function)
    except (KeyError, TypeError, AttributeError) as error:
        raise CourseError(
            f"{path} is not what this version of `course aot` writes: export the kernel again."
        ) from error
    return content


def json_line(content: dict[str, Any]) -> str:
    """With its hash, so that a change by hand is noticed."""
    text = json.dumps(content)
    return f"{JSON_LINE}{_digest(text)} {text}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
