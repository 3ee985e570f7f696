"""Exercises whose answer is a number, a letter or a text, for a page that judges them by itself.

They are read from the source, since the course's rooms need PyTorch. `site.js` judges as
course/exercises/kinds/values.py does; a test holds one against the other.
"""

import ast
from pathlib import Path
from typing import Any

KINDS = ("NumberExercise", "ChoiceExercise", "TextExercise", "NamesExercise")


def questions(folder: Path) -> dict[str, dict[str, Any]]:
    """name -> what is right and what is said, as JSON has it. Those whose values come from a record
    are left out.

    folder: the exercises, by topic.
    """
    found = {}
    for path in sorted(folder.glob("*.py")):
        for call in _exercises(ast.parse(path.read_text(encoding="utf-8"))):
            name = ast.literal_eval(call.args[0])
            try:
                values = {each.arg: _value(each.value) for each in call.keywords}
            except NameError:
                continue
            kind = ast.unparse(call.func).removesuffix("Exercise").lower()
            found[name] = {"kind": kind, **values}
            if "slips" in values:
                found[name]["slips"] = list(values["slips"].items())
    return found


def _exercises(module: ast.Module) -> list[ast.Call]:
    """The calls in EXERCISES that make an exercise of one of these kinds."""
    listed = [
        entry
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EXERCISES"
        for entry in getattr(node.value, "elts", ())
    ]
    calls = [each for each in listed if isinstance(each, ast.Call)]
    return [call for call in calls if ast.unparse(call.func) in KINDS]


def _value(node: ast.expr) -> Any:
    """What an expression of constants is, as 2 * 2**26 / 1e6. Raises NameError for another one."""
    return eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}})
