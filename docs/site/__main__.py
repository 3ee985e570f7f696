"""`python -m docs.site [FOLDER]`: make the environment of tools where there is none, then build.

FOLDER: where site/ will be; build/ by default.
"""

import os
import sys
from pathlib import Path

from course import bootstrap

from . import ROOT, SiteError, tools


def main() -> int:
    """Build the site; return the exit code."""
    try:
        if tools.is_inside():
            from . import build

            build.build(*map(Path, sys.argv[1:2]))
            return 0
        python = bootstrap.choose_python()
        if python is None and not tools.ready():
            tools.make()
        program = python or str(tools.PYTHON)
        arguments = [os.path.abspath(folder) for folder in sys.argv[1:2]]
        os.chdir(ROOT)
        os.execv(program, [program, "-m", "docs.site", *arguments])
    except (SiteError, bootstrap.Stop) as stop:
        print(f"Site: {stop}", file=sys.stderr)
    except KeyboardInterrupt:
        print("Site: stopped; the same command goes on from here.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
