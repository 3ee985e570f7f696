"""`python -m docs.site [FOLDER]`: build the site, in the environment that `make site` makes for it.

FOLDER: where site/ will be; build/ by default.
"""

import sys
from pathlib import Path

from . import SiteError


def main() -> int:
    """Build the site; return the exit code."""
    try:
        from .build import build

        build(*map(Path, sys.argv[1:2]))
        return 0
    except ModuleNotFoundError as error:
        says = f"{error.name} is missing here: run `make site`, which installs what it needs."
        print(f"Site: {says}", file=sys.stderr)
    except SiteError as error:
        print(f"Site: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("Site: stopped; the same command goes on from here.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
