"""`python -m docs.site`: make the tools' environment where it is missing, then build in it."""

import os
import sys

from course import bootstrap

from . import ROOT, SiteError, tools


def main() -> int:
    """Build the site; return the exit code."""
    try:
        if tools.is_inside():
            from . import build

            build.build()
            return 0
        python = bootstrap.choose_python()
        if python is None and not tools.ready():
            tools.make()
        os.chdir(ROOT)
        os.execv(python or tools.PYTHON, [python or str(tools.PYTHON), "-m", "docs.site"])
    except (SiteError, bootstrap.Stop) as stop:
        print(f"Site: {stop}", file=sys.stderr)
    except KeyboardInterrupt:
        print("Site: stopped; the same command goes on from here.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
