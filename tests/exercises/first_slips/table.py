"""The slips of `slips.toml`, each as the module that a beginner would have written."""

import importlib.util
import linecache
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch

from course.verifying.inputs import Case, Input

HERE = Path(__file__).parent
PROGRAMS = (HERE / "programs.py").read_text()
MATRIX, HALF = (20, 40), torch.float16
CASES = {
    "add": [Input((100,))] * 2,
    "gate": [Input((100,), HALF)] * 2,
    "softmax": [Input((20, 100))],
    "center": [Input(MATRIX)],
    "transpose": [Input(MATRIX)],
    "tile": [Input(MATRIX)],
    "bias": [Input(MATRIX), Input(MATRIX[1:])],
    "matmul": [Input((20, 24), HALF), Input((24, 40), HALF)],
}
"""program -> its inputs; 100 numbers for the others"""
REFERENCES = {
    "double": lambda x: 2 * x,
    "add": torch.add,
    "flip": lambda x: x.flip(0),
    "relu": torch.relu,
    "gate": lambda a, b: torch.nn.functional.silu(a) * b,
    "softmax": lambda x: x.softmax(dim=1),
    "center": lambda x: x - x.mean(dim=1, keepdim=True),
    "bias": torch.add,
    "transpose": lambda x: x.T,
    "matmul": torch.matmul,
    "total": lambda x: x.sum().reshape(1),
    "tile": lambda x: 2 * x,
}


@dataclass(frozen=True)
class Slip:
    """One line of a right program, as a beginner wrote it."""

    kind: str
    program: str
    right: str
    wrote: str
    words: tuple[str, ...]
    """Patterns of what a sentence must say to lead to the mend."""
    line: str | None
    """What stands in the line to be named; None: the first line written; empty: none is named."""

    @property
    def start(self) -> int:
        """Where the program begins in the file."""
        return PROGRAMS.index(f"@triton.jit\ndef {self.program}_kernel")

    @property
    def text(self) -> str:
        """The file, as the beginner wrote it."""
        before, found, after = PROGRAMS[self.start :].partition(self.right)
        assert found, self
        return PROGRAMS[: self.start] + before + self.wrote + after

    @property
    def line_number(self) -> int:
        """The line to be named, from 1; 0 for none."""
        if self.line == "":
            return 0
        text, wanted = (PROGRAMS, self.right) if self.line is None else (self.text, self.line)
        return text[: text.index(wanted, self.start)].count("\n") + 1

    @property
    def case(self) -> Case:
        return case_of(self.program)

    def module(self, folder: Path) -> ModuleType:
        """The file, imported."""
        path = folder / f"{self.program}.py"
        path.write_text(self.text)
        linecache.checkcache(str(path))
        spec = importlib.util.spec_from_file_location(f"slip_{id(self)}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def case_of(program: str) -> Case:
    return Case(tuple(CASES.get(program, [Input((100,))])))


SLIPS = [
    Slip(kind, each["in"], each["right"], each["wrote"], tuple(each["words"]), each.get("line"))
    for kind, entries in tomllib.loads((HERE / "slips.toml").read_text()).items()
    for each in entries
]
