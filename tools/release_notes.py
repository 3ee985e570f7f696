"""Print the notes of a release, from CHANGELOG.md: `python -m tools.release_notes`.

Fails where the version in pyproject.toml is one in development, or has no section.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def notes(root: Path = ROOT) -> str:
    """The section of the version. Raises ValueError with a sentence where there is none."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = str(project["version"])
    if ".dev" in version:
        raise ValueError(f"{version} is in development: CONTRIBUTING.md says what a release takes.")
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(version)}\b.*?\n(.*?)(?=^## |\Z)", changes, re.M | re.S)
    if not found:
        raise ValueError(f"CHANGELOG.md has no section {version}.")
    return found[1].strip()


if __name__ == "__main__":
    try:
        print(notes())
    except ValueError as error:
        sys.exit(str(error))
