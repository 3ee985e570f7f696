"""The reference: pages of the public names, with signatures and docstrings.

Read from the source with `ast`. Nothing of the course is imported, so neither PyTorch nor Triton
need be there.
"""

import ast
import inspect
import re
from collections.abc import Set
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from . import SiteError

WIDTH = 84
"""Characters of a signature that stay on one line."""
VALUES = {
    "DEVICE": 'Where a lesson puts its tensors: `"cuda"` in GPU mode, `"cpu"` in CPU mode.',
    "MODE": "The mode of this session, and the reason for it; `MODE.gpu` says whether kernels are"
    " compiled and launched. `COURSE_MODE=cpu` asks for CPU mode.",
}
"""The public names that are plain values."""
Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Name:
    """A public name: where it is defined, and its definition (None for a plain value)."""

    name: str
    module: str
    node: Definition | None


@dataclass
class Package:
    """The modules of a package, by their dotted names, read from its source."""

    root: Path
    """The folder in which the package's folder stands."""
    _trees: dict[str, ast.Module] = field(default_factory=dict)

    def file(self, module: str) -> Path | None:
        """The file of a module; None where it is none of the package's."""
        path = self.root / Path(*module.split("."))
        files = (path / "__init__.py", path.with_suffix(".py"))
        return next((file for file in files if file.is_file()), None)

    def tree(self, module: str) -> ast.Module:
        """A module's syntax. Raises SiteError where there is no such module."""
        if module not in self._trees:
            file = self.file(module)
            if file is None:
                raise SiteError(f"{module} has no file: mend the table that names it.")
            self._trees[module] = ast.parse(file.read_text(encoding="utf-8"))
        return self._trees[module]

    def find(self, module: str, name: str) -> Name:
        """A name of a module, followed through imports to where it is defined."""
        for node in self.tree(module).body:
            if isinstance(node, Definition) and node.name == name:
                return Name(name, module, node)
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        home = self._absolute(module, node)
                        if self.file(f"{home}.{alias.name}"):
                            return Name(name, f"{home}.{alias.name}", None)
                        if self.file(home):
                            return self.find(home, alias.name)
        return Name(name, module, None)

    def _absolute(self, module: str, node: ast.ImportFrom) -> str:
        """The module that an import names."""
        if not node.level:
            return node.module or ""
        file = self.file(module)
        is_package = file is not None and file.name == "__init__.py"
        parts = module.split(".")
        parts = parts[: len(parts) - node.level + is_package]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def value(self, module: str, name: str) -> object:
        """A constant that a module assigns; None where it assigns none of that name."""
        for node in self.tree(module).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                try:
                    return ast.literal_eval(node.value)
                except ValueError:
                    return None
        return None

    def public(self, module: str) -> list[Name]:
        """What a module gives out: by its table of lazy names, its `__all__`, or its own
        definitions without an underscore."""
        lazy = self.value(module, "_LAZY") or self.value(module, "_MODULES")
        if isinstance(lazy, dict):
            return [self._lazy(name, home) for name, home in sorted(lazy.items())]
        listed = self.value(module, "__all__")
        if isinstance(listed, list):
            return [self.find(module, name) for name in listed]
        return [
            Name(node.name, module, node)
            for node in self.tree(module).body
            if isinstance(node, Definition) and not node.name.startswith("_")
        ]

    def _lazy(self, name: str, home: str | tuple[str, str | None]) -> Name:
        module, attribute = home if isinstance(home, tuple) else (home, name)
        return self.find(module, attribute) if attribute else Name(name, module, None)

    def returned(self, name: Name) -> list[Name]:
        """The package's classes that a function returns."""
        if not isinstance(name.node, ast.FunctionDef) or name.node.returns is None:
            return []
        text = ast.unparse(name.node.returns)
        found = [self.find(name.module, word) for word in re.findall(r"[A-Za-z_]\w*", text)]
        return [each for each in found if isinstance(each.node, ast.ClassDef)]


@cache
def escaped(text: str) -> str:
    """A docstring's sentence as Markdown: nothing but what stands between backticks is markup."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(
        part if number % 2 else re.sub(r"([\\*_\[\]<>#|~$^])", r"\\\1", part)
        for number, part in enumerate(parts)
    )


def docstring(node: ast.AST) -> str:
    """A definition's docstring as Markdown; "" where it has none."""
    text = ast.get_docstring(node) if isinstance(node, Definition | ast.Module) else None
    parameters = set()
    if isinstance(node, ast.FunctionDef):
        arguments = node.args
        listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        listed += [each for each in (arguments.vararg, arguments.kwarg) if each]
        parameters = {each.arg for each in listed}
    return rendered(text or "", parameters)


def rendered(text: str, parameters: Set[str] = frozenset()) -> str:
    """A docstring as Markdown.

    parameters: a line "name, name: what they are" of these begins an item, to which the indented
        lines after it belong.
    A paragraph that is indented as a whole, or is Python, is code.
    """
    blocks: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        if _is_python(paragraph):
            blocks.append(code(inspect.cleandoc(paragraph)))
            continue
        if all(line.startswith("    ") for line in paragraph.split("\n")):
            blocks.append(code(inspect.cleandoc(paragraph), "text"))
            continue
        in_list = False
        for number, line in enumerate(paragraph.split("\n")):
            head, colon, rest = line.partition(": ")
            names = re.findall(r"\w+", head)
            if colon and names and set(names) <= parameters:
                item = f"- **{escaped(head)}**: {escaped(rest)}"
                blocks += [item] if not in_list else []
                if in_list:
                    blocks[-1] += f"\n{item}"
                in_list = True
            elif in_list and line.startswith(" "):
                blocks[-1] += f"\n  {escaped(line.strip())}"
            elif in_list or number == 0:
                blocks.append(escaped(line.strip()))
                in_list = False
            else:
                blocks[-1] += f"\n{escaped(line.strip())}"
    return "\n\n".join(blocks).strip()


def _is_python(paragraph: str) -> bool:
    """Whether it is code, and no sentence: prose that parses as Python has no bracket or import."""
    try:
        return bool(
            re.search(r"\(|\bimport\b", paragraph) and ast.parse(inspect.cleandoc(paragraph))
        )
    except SyntaxError:
        return False


def signature(node: ast.FunctionDef, name: str = "", is_method: bool = False) -> str:
    """A function's signature, one argument a line where it is long."""
    arguments = ast.parse(f"def f({ast.unparse(node.args)}): ...").body[0].args  # a copy
    if is_method and arguments.args:
        arguments.args.pop(0)
    text = ast.unparse(arguments)
    returns = f" -> {ast.unparse(node.returns).strip(chr(39))}" if node.returns else ""
    one_line = f"{name or node.name}({text}){returns}"
    if len(one_line) <= WIDTH:
        return one_line
    parts = _split(text)
    return "\n".join([f"{name or node.name}(", *(f"    {part}," for part in parts), f"){returns}"])


def _split(arguments: str) -> list[str]:
    """Arguments apart, at the commas that stand in no bracket or text."""
    parts, depth, quote = [""], 0, ""
    for character in arguments:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def code(text: str, language: str = "python") -> str:
    return f"```{language}\n{text}\n```"


def function_entry(name: Name, prefix: str, links: list[str]) -> str:
    """A function under a heading of its own. links: to the classes that it returns."""
    assert isinstance(name.node, ast.FunctionDef)
    shown = f"{prefix}{name.name}"
    parts = [f"## {shown}", code(signature(name.node, shown)), docstring(name.node)]
    parts += [f"Returns: {', '.join(links)}."] if links else []
    return "\n\n".join(parts) + "\n"


def class_entry(name: Name, prefix: str = "") -> str:
    """A class with its public attributes and methods."""
    assert isinstance(name.node, ast.ClassDef)
    lines = [f"## {prefix}{name.name}\n", docstring(name.node) + "\n"]
    body = name.node.body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines += _attribute(node, after)
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            lines += _method(node)
    return "\n".join(lines) + "\n"


def _attribute(node: ast.AnnAssign, after: ast.stmt | None) -> list[str]:
    name = ast.unparse(node.target)
    if name.startswith("_"):
        return []
    text = ""
    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
        text = " ".join(inspect.cleandoc(str(after.value.value)).split())
    return [_member(f"{name}: {ast.unparse(node.annotation)}", escaped(text))]


def _method(node: ast.FunctionDef) -> list[str]:
    kinds = {ast.unparse(decorator) for decorator in node.decorator_list}
    if kinds & {"property", "cached_property", "functools.cached_property"}:
        returns = f": {ast.unparse(node.returns)}" if node.returns else ""
        return [_member(node.name + returns, docstring(node))]
    return [_member(signature(node, is_method="staticmethod" not in kinds), docstring(node))]


def _member(shown: str, text: str) -> str:
    shown = " ".join(shown.replace("(\n", "(").replace(",\n)", ")").split())
    body = "\n".join(f"  {line}" if line else "" for line in text.split("\n"))
    return f"- `{shown}`\n\n{body}\n" if text.strip() else f"- `{shown}`\n"


def pages(root: Path) -> dict[str, str]:
    """The pages of the reference, by their names: Markdown.

    Raises SiteError where a table of names leads nowhere.
    """
    package = Package(root)
    names = package.public("course")
    plain = [package.find("course", "CourseError")]
    groups = {"course": ("course", plain + [name for name in names if name.node is not None])}
    for name in names:
        if name.node is None:
            groups[f"course.{name.name}"] = (name.module, package.public(name.module))
    places = {
        (
            each.module,
            each.name,
        ): f"{group.replace('.', '-')}.md#{_slug(_prefix(group) + each.name)}"
        for group, (_, members) in groups.items()
        for each in members
    }
    results = {
        (each.module, each.name): each
        for _, members in groups.values()
        for member in members
        for each in package.returned(member)
        if (each.module, each.name) not in places
    }
    places |= {key: f"results.md#{_slug(each.name)}" for key, each in results.items()}
    written = {}
    for group, (module, members) in groups.items():
        parts = [f"# {group}\n", docstring(package.tree(module)) + "\n"]
        if group == "course":
            parts += [f"## {name}\n\n{text}\n" for name, text in VALUES.items()]
        for each in members:
            returned = {(to.module, to.name): to.name for to in package.returned(each)}
            links = [f"[{name}]({places[key]})" for key, name in returned.items()]
            if isinstance(each.node, ast.ClassDef):
                parts.append(class_entry(each, _prefix(group)))
            elif each.node is not None:
                parts.append(function_entry(each, _prefix(group), links))
        written[group.replace(".", "-")] = "\n".join(parts)
    head = "# What they return\n\nWhat the functions of the course return, by class.\n"
    given = sorted(results.values(), key=lambda each: each.name)
    written["results"] = "\n".join([head, *map(class_entry, given)])
    return written


def _prefix(group: str) -> str:
    """What stands before a name where it is used: "draw." for course.draw."""
    return group.removeprefix("course").removeprefix(".") + "." if group != "course" else ""


def _slug(heading: str) -> str:
    """A heading's anchor, as Markdown's readers make it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
