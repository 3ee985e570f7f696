"""The reference: pages of the public names, with signatures and docstrings.

griffe reads the source. Nothing of the course is imported, so neither PyTorch nor Triton need be
there.
"""

import ast
import re
from collections.abc import Set
from inspect import cleandoc
from pathlib import Path

import griffe
from griffe import ParameterKind

from . import SiteError

WIDTH = 84
"""Characters of a signature that stay on one line."""
VALUES = {
    "DEVICE": 'Where a lesson puts its tensors: `"cuda"` in GPU mode, `"cpu"` in CPU mode.',
    "MODE": "The mode of this session, and the reason for it; `MODE.gpu` says whether kernels are"
    " compiled and launched. `COURSE_MODE=cpu` asks for CPU mode.",
}
"""The public names that are plain values."""
STARS = {ParameterKind.var_positional: "*", ParameterKind.var_keyword: "**"}


class Reference:
    """The public names of the course, by the modules that give them out.

    Raises SiteError where a table of names leads nowhere.
    """

    def __init__(self, root: Path) -> None:
        """root: the folder in which the package's folder stands."""
        self.package = griffe.load("course", search_paths=[root], allow_inspection=False)
        names = self.public(self.package)
        modules = {name: each for name, each in names.items() if each.is_module}
        functions = [each for each in names.values() if not each.is_module]
        self.groups = {"": [self.find("course.CourseError"), *functions]}
        """What stands before a name where it is used -> the names that stand on its page."""
        for name, module in modules.items():
            members = self.public(module).values()
            self.groups[f"{name}."] = [each for each in members if not each.is_module]
        self.modules = {"": self.package} | {f"{name}.": each for name, each in modules.items()}
        self.places = {
            each.path: f"{_page(prefix)}.md#{_slug(prefix + each.name)}"
            for prefix, members in self.groups.items()
            for each in members
        }
        """The dotted path of a name -> where it stands."""
        returned = [to for each in self._members() for to in self.returned(each)]
        self.results = {to.name: to for to in returned if to.path not in self.places}
        """The classes that functions return and that no module gives out."""
        self.places |= {
            each.path: f"results.md#{_slug(name)}" for name, each in self.results.items()
        }

    def _members(self) -> list[griffe.Object]:
        return [each for members in self.groups.values() for each in members]

    def find(self, path: str) -> griffe.Object:
        """What stands at a dotted path, followed through imports to where it is defined. Raises
        SiteError where nothing does."""
        try:
            found = self.package.modules_collection[path]
            return found.final_target if found.is_alias else found
        except (KeyError, griffe.AliasResolutionError) as error:
            raise SiteError(f"{path} is not there: mend the table that names it.") from error

    def public(self, module: griffe.Object) -> dict[str, griffe.Object]:
        """What a module gives out: by its table of lazy names, its `__all__`, or its own
        definitions without an underscore."""
        table = module.members.get("_LAZY") or module.members.get("_MODULES")
        if table:
            homes = ast.literal_eval(str(table.value))
            return {name: self.find(_path(name, homes[name])) for name in sorted(homes)}
        own = [
            name
            for name, each in module.members.items()
            if not each.is_alias
            and (each.is_function or each.is_class)
            and not name.startswith("_")
        ]
        return {name: self.find(f"{module.path}.{name}") for name in module.exports or own}

    def returned(self, each: griffe.Object) -> list[griffe.Object]:
        """The course's classes that a function returns."""
        if not each.is_function or not isinstance(each.returns, griffe.Expr):
            return []
        names = [part for part in each.returns.iterate() if isinstance(part, griffe.ExprName)]
        paths = [name.canonical_path for name in names]
        found = [self.find(path) for path in paths if path.startswith("course.")]
        return list({to.path: to for to in found if to.is_class}.values())

    def pages(self) -> dict[str, str]:
        """Page -> Markdown."""
        written = {}
        for prefix, members in self.groups.items():
            parts = [
                f"# {_page(prefix).replace('-', '.')}\n",
                docstring(self.modules[prefix]) + "\n",
            ]
            if not prefix:
                parts += [f"## {name}\n\n{text}\n" for name, text in VALUES.items()]
            written[_page(prefix)] = "\n".join(
                [*parts, *(self._entry(each, prefix) for each in members)]
            )
        head = "# What they return\n\nWhat the functions of the course return, by class.\n"
        results = [class_entry(each) for _, each in sorted(self.results.items())]
        return written | {"results": "\n".join([head, *results])}

    def _entry(self, each: griffe.Object, prefix: str) -> str:
        if each.is_class:
            return class_entry(each, prefix)
        links = [f"[{to.name}]({self.places[to.path]})" for to in self.returned(each)]
        return function_entry(each, prefix, links)


def _path(name: str, home: str | tuple[str, str | None]) -> str:
    """The dotted path that a table of lazy names gives a name."""
    module, attribute = home if isinstance(home, tuple) else (home, name)
    return f"{module}.{attribute}" if attribute else module


def _page(prefix: str) -> str:
    return f"course-{prefix[:-1]}" if prefix else "course"


def _slug(heading: str) -> str:
    """A heading's anchor, as Markdown's readers make it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def function_entry(function: griffe.Function, prefix: str, links: list[str]) -> str:
    """A function under a heading of its own. links: to the classes that it returns."""
    shown = f"{prefix}{function.name}"
    parts = [f"## {shown}", code(signature(function, shown)), docstring(function)]
    parts += [f"Returns: {', '.join(links)}."] if links else []
    return "\n\n".join(parts) + "\n"


def class_entry(each: griffe.Class, prefix: str = "") -> str:
    """A class with its public attributes and methods."""
    lines = [f"## {prefix}{each.name}\n", docstring(each) + "\n"]
    for member in each.members.values():
        if member.is_function and not member.name.startswith("_"):
            lines.append(_member(" ".join(signature(member).split()), member))
        elif member.is_attribute and member.annotation and not member.name.startswith("_"):
            lines.append(_member(f"{member.name}: {member.annotation}", member))
    return "\n".join(lines) + "\n"


def _member(shown: str, member: griffe.Object) -> str:
    shown = shown.replace("( ", "(").replace(", )", ")")
    body = "".join(f"  {line}\n" if line else "\n" for line in docstring(member).split("\n"))
    return f"- `{shown}`\n\n{body}" if body.strip() else f"- `{shown}`\n"


def signature(function: griffe.Function, name: str = "") -> str:
    """A function's signature, one argument a line where it is long."""
    parameters = _parameters(function)
    head, tail = f"{name or function.name}(", f") -> {function.returns}"
    one_line = f"{head}{', '.join(parameters)}{tail}"
    if len(one_line) <= WIDTH:
        return one_line
    return "\n".join([head, *(f"    {each}," for each in parameters), tail])


def _parameters(function: griffe.Function) -> list[str]:
    """A function's parameters as they are written, without a method's own object."""
    is_method = function.parent.is_class and "staticmethod" not in function.labels
    listed = list(function.parameters)[1 if is_method else 0 :]
    shown = {
        kind: [_parameter(each) for each in listed if each.kind is kind] for kind in ParameterKind
    }
    first, rest = shown[ParameterKind.positional_only], shown[ParameterKind.keyword_only]
    starred = shown[ParameterKind.var_positional] or (["*"] if rest else [])
    positional = [*first, *(["/"] if first else []), *shown[ParameterKind.positional_or_keyword]]
    return [*positional, *starred, *rest, *shown[ParameterKind.var_keyword]]


def _parameter(parameter: griffe.Parameter) -> str:
    star = STARS.get(parameter.kind, "")
    annotation = f": {parameter.annotation}" if parameter.annotation else ""
    default = "" if star or parameter.required else f" = {parameter.default}"
    return f"{star}{parameter.name}{annotation}{default}"


def docstring(each: griffe.Object) -> str:
    """A definition's docstring as Markdown; "" where it has none."""
    parameters = {parameter.name for parameter in each.parameters} if each.is_function else set()
    return rendered(each.docstring.value, parameters) if each.docstring else ""


def rendered(text: str, parameters: Set[str] = frozenset()) -> str:
    """A docstring as Markdown.

    parameters: a line "name, name: what they are" of these begins an item, to which the indented
        lines after it belong.
    A paragraph that is indented as a whole, or is Python, is code.
    """
    return "\n\n".join(_paragraph(each, parameters) for each in re.split(r"\n\s*\n", text))


def _paragraph(text: str, parameters: Set[str]) -> str:
    lines = text.split("\n")
    if _is_python(text):
        return code(cleandoc(text))
    if all(line.startswith("    ") for line in lines):
        return code(cleandoc(text), "text")
    shown, in_list = "", False
    for line in lines:
        head, colon, rest = line.partition(": ")
        names = set(re.findall(r"\w+", head)) if colon else set()
        if names and names <= parameters:
            shown += "\n" if in_list else "\n\n"
            shown += f"- **{escaped(head)}**: {escaped(rest)}"
            in_list = True
        elif in_list and line.startswith(" "):
            shown += f"\n  {escaped(line.strip())}"
        else:
            shown += ("\n\n" if in_list else "\n") + escaped(line.strip())
            in_list = False
    return shown.strip()


def _is_python(paragraph: str) -> bool:
    """Whether it is code, and no sentence: prose that parses as Python has no bracket or import."""
    try:
        return bool(re.search(r"\(|\bimport\b", paragraph) and ast.parse(cleandoc(paragraph)))
    except SyntaxError:
        return False


def escaped(text: str) -> str:
    """A docstring's sentence as Markdown: nothing but what stands between backticks is markup."""
    return re.sub(
        r"`[^`]+`|([\\*_\[\]<>#|~$^])",
        lambda match: f"\\{match[1]}" if match[1] else match[0],
        text,
    )


def code(text: str, language: str = "python") -> str:
    return f"```{language}\n{text}\n```"
