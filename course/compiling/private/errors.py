"""What the compiler's and the interpreter's exceptions say."""

import re
from dataclasses import dataclass

from triton.compiler.errors import CompilationError


@dataclass(frozen=True)
class Place:
    """A line of one of several functions."""

    which: int
    """The function's number among them."""
    line: int
    """In its file."""
    text: str


@dataclass(frozen=True)
class CompileProblem:
    """Why a kernel does not compile, and where."""

    reason: str
    places: tuple[tuple[str, int], ...] = ()
    """Where the compiler stopped, from the innermost call to the outermost: a function's text, from its `def`, and the line
    in it, from 1."""

    def within(self, functions: list[tuple[str, int]]) -> Place | None:
        """The innermost place in one of these functions, each given as its text and the line of its file it begins in."""
        for source, row in self.places:
            for which, (text, first_line) in enumerate(functions):
                before, found, _ = text.partition(source.rstrip())
                if found:
                    lines = source.rstrip().split("\n")
                    row = min(row, len(lines))  # of a call of a noinline function Triton says the line after it
                    return Place(which, first_line + before.count("\n") + row - 1, lines[row - 1].strip())
        return None


class CompileError(Exception):
    """A kernel does not compile."""

    def __init__(self, problem: CompileProblem) -> None:
        super().__init__(problem.reason)
        self.problem = problem


def compile_problem(error: Exception) -> CompileProblem:
    """What an exception from a compilation says."""
    causes = [error]
    while isinstance(causes[-1].__cause__, Exception):
        causes.append(causes[-1].__cause__)
    located = [each for each in causes if isinstance(each, CompilationError) and hasattr(each.node, "lineno") and each.src]
    words = [getattr(each, "error_message", None) or _own_words(each) for each in causes]
    last = str(error).strip().splitlines()[-1:]  # below the source, what is wrong with it
    reason = next((text for text in [*reversed(words), *last] if text), type(error).__name__)
    wrapped = re.fullmatch(r"[A-Za-z]+\((['\"])(.*)\1\)", reason, re.DOTALL)
    reason = " ".join((wrapped[2].replace("\\'", "'") if wrapped else reason).split())
    reason = _CLEARER.get(reason, reason)
    return CompileProblem(reason, tuple((each.src, each.node.lineno) for each in reversed(located)))


_CLEARER = {
    # What Triton says at `out_ptr[offsets] = x`, and at a call of a kernel without a grid.
    "Did you forget to add @triton.jit ? (`_semantic` argument must be provided outside of JIT functions.)": "a pointer is not "
    "indexed: use tl.load and tl.store",
    "'InterpreterBuilder' object has no attribute 'grid_idx'": "a kernel was called without a grid: write kernel[grid](…)",
    "'MatMult' object has no attribute '__name__'": "a kernel has no @: tl.dot(a, b) multiplies blocks",
    "object of type 'int' has no len()": "the grid is a number, and must be a tuple: write kernel[(programs,)](…)",
}


def interpreter_words(error: Exception) -> str:
    """What an error of the interpreter means, where its own words mislead; else nothing."""
    return _CLEARER.get(str(error), "")


def _own_words(error: Exception) -> str:
    """What an error says, where it does not only show the source."""
    return "" if isinstance(error, CompilationError) else str(error)
