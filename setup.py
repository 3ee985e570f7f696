"""What a wheel holds: course/, and inside it what the course reads of the repository beside it.

Everything else that setuptools is told stands in pyproject.toml.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
CONTENT = (
    "kernels/**/*.py", "notebooks/*.ipynb", "solutions/*.py", "docs/pages/*.md", "docs/design.md",
    "docs/teaching/**/*.md", "docs/*.png", "docs/*.svg", "*.md", "LICENSE",
)  # fmt: skip


class WithContent(build_py):
    """Copies CONTENT into course/content/ of a wheel. An editable installation reads the checkout
    and gets no copy."""

    def run(self):
        if self.editable_mode:
            return super().run()
        package = Path(self.build_lib) / "course"
        shutil.rmtree(package, ignore_errors=True)  # a file that is gone must not come back
        super().run()
        for file in (file for pattern in CONTENT for file in matching(pattern)):
            copy = package / "content" / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


def matching(pattern):
    """The files of a pattern. Raises FileNotFoundError where there is none: a wheel without the
    lessons would install, and have nothing to show."""
    files = sorted(ROOT.glob(pattern))
    if not files:
        raise FileNotFoundError(
            f"{ROOT} has no {pattern}, which the wheel must hold: build it in a whole checkout, or"
            " from the source distribution."
        )
    return files


setup(cmdclass={"build_py": WithContent})
