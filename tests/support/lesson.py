"""The lessons as the tests of what they say read them: text, code, and what that defines."""

import re
import types

import torch

from course.lessons.folders import NOTEBOOKS
from course.lessons.order import lesson_sources, numbers, part_of
from course.lessons.without_solutions import solved


def notebook_of(name):
    """The committed notebook of the lesson of this name."""
    return NOTEBOOKS / f"{numbers()[name]}-{name}.ipynb"


class Lesson:
    """The solved lessons of a part of the course, as "Softmax", one behind the other."""

    def __init__(self, part):
        by_name = numbers()
        sources = [each for each in lesson_sources() if part_of(each.name[:2], by_name) == part]
        self.cells = [cell for source in sources for cell in solved(source).cells]
        code = [cell.source for cell in self.cells if cell.cell_type == "code"]
        self.code = list(dict.fromkeys(code))
        """Each code cell once: a lesson repeats what it takes from those before."""
        is_import = re.compile(r"(from|import) ")
        self.imports = "\n".join(text for text in self.code if is_import.match(text))
        texts = [cell.source for cell in self.cells if cell.cell_type == "markdown"]
        self.text = "\n\n".join(texts)
        self.flat = " ".join(self.text.split())
        """The text in one line."""

    def defining(self, *names):
        """The code cells that define one of these functions."""
        return [text for text in self.code if any(f"def {name}(" in text for name in names)]


def script_of(folder, *texts):
    """What these texts define in one file, where Triton finds the source of their kernels."""
    path = folder / "a_script.py"
    path.write_text("\n\n\n".join(texts) + "\n")
    script = types.ModuleType("a_script")
    exec(compile(path.read_text(), str(path), "exec"), vars(script))
    return script


def empty(*shape, dtype=torch.float32):
    """A tensor that takes no memory."""
    return torch.empty(*shape, dtype=dtype, device="meta")


def share(speeds, series, x):
    """The part of the copy roof that a series reaches at a size."""
    return speeds.at(series, x).tb_s / speeds.copy_tb_s


def lines_of(text):
    """The lines of a text that are not empty, without indentation."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def stands_in(piece, paths):
    """Whether the lines of a piece of code stand side by side in one of these files."""
    lines = lines_of(piece)
    sources = [lines_of(path.read_text()) for path in paths]
    return any(
        lines == source[start : start + len(lines)]
        for source in sources
        for start in range(len(source))
    )
