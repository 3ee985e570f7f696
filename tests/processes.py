"""What processes that a test starts are given."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]


def python_path() -> str:
    """PYTHONPATH by which another Python finds the course, and whatever this one found by it. No part is empty, which would be
    the current folder."""
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
