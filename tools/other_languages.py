"""Check the JavaScript and the C: `python -m tools.other_languages`, a part of `make lint`.

Deno checks types and style of the scripts. The widgets' are checked as a page runs them, joined
behind what all share: line numbers are those of that script, which stays in build/javascript. The
compiler checks the C that stands as C. What is exported, and the programs around it, are C of the
tests, which compile it with the same flags and run it under the sanitizers.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from course.aot.c_compiler import FLAGS, include_folder, run_compiler
from course.compilers import compiler_command
from course.errors import CourseError
from course.lessons.saved_widgets import script as widgets_script

ROOT = Path(__file__).parents[1]
OUT = ROOT / "build" / "javascript"
PAGES = {
    "board": ROOT / "hub/board.js",
    "site": ROOT / "docs/site/site.js",
    "cells": ROOT / "docs/site/in_browser/site.js",
    "worker": ROOT / "docs/site/in_browser/worker.js",
}
SETTINGS = {
    "compilerOptions": {
        "checkJs": True, "strict": True, "noImplicitAny": False,
        "lib": ["dom", "dom.iterable", "esnext"],
    },
    # They run in a browser, where `window` is; and each widget uses a part of what all share.
    "lint": {"rules": {"exclude": ["no-window", "no-unused-vars", "require-await"]}},
}  # fmt: skip
C_FOLDERS = ("aot/fake_driver", "aot/operator_code")


def check_javascript() -> None:
    """Raises CourseError where Deno objects; what it says is printed."""
    OUT.mkdir(parents=True, exist_ok=True)
    texts = {"widgets": widgets_script()}
    texts |= {name: path.read_text() for name, path in PAGES.items()}
    for name, text in texts.items():
        (OUT / f"{name}.js").write_text(text)
    settings = OUT / "deno.json"
    settings.write_text(json.dumps(SETTINGS))
    deno = Path(sys.executable).with_name("deno")
    paths = [OUT / f"{name}.js" for name in texts]
    for verb in ("check", "lint"):
        command = [deno, verb, "--quiet", "--config", settings, *paths]
        if subprocess.run(command, env=os.environ | {"DENO_NO_UPDATE_CHECK": "1"}).returncode:
            raise CourseError(f"deno {verb} objects to JavaScript.")


def check_c() -> None:
    """Raises CourseError with what the compiler objects to first."""
    folders = (ROOT / "course" / name for name in C_FOLDERS)
    sources = [str(path) for folder in folders for path in sorted(folder.glob("*.c"))]
    includes = ["-isystem", str(include_folder())]
    run_compiler(
        [*compiler_command(), *FLAGS, "-D_GNU_SOURCE", "-fsyntax-only", *includes, *sources]
    )


if __name__ == "__main__":
    try:
        check_javascript()
        check_c()
    except CourseError as error:
        sys.exit(str(error))
