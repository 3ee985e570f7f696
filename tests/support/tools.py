"""`python -m tests.support.tools`: install what the tests of the site and of a room need.

What cannot be had is said in a sentence: the tests that need it are skipped then, with the reason.
"""

import sys

from course.errors import CourseError
from docs.site import SiteError
from docs.site import tools as site
from hub import tools as hub


def main() -> None:
    """Make each set of tools that is not whole."""
    for tools in (site, hub):
        try:
            if not tools.ready():
                tools.make()
        except (CourseError, SiteError) as error:
            print(f"Not installed: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
