"""The one script and the one style that bring to life what the notebooks keep of widgets.

`python -m course.lessons.saved_widgets FOLDER` writes both, for a site made of the notebooks. It
needs the standard library alone.
"""

import sys
from pathlib import Path

from course.display.widget import SHARED, waking_script
from course.files import write_whole

COURSE = Path(__file__).resolve().parent.parent
WIDGETS = {
    "explore": COURSE / "lowering" / "explorer",
    "replay": COURSE / "tracing" / "replay",
    "ruler": COURSE / "draw" / "memory_ruler",
    "slide": COURSE / "draw" / "slider",
}
"""The path of each kind's script, without the suffix. The rooms are not imported for it: they need
Triton."""


def script() -> str:
    """A classic script, which wakes every saved widget of the page that loads it."""
    return waking_script(WIDGETS)


def style() -> str:
    """The style of all widgets."""
    paths = (path.with_suffix(".css") for path in (SHARED, *WIDGETS.values()))
    return "\n".join(path.read_text(encoding="utf-8") for path in paths if path.is_file())


def main(folder: Path) -> None:
    """Write course-widgets.js and course-widgets.css into a folder that is there."""
    for name, text in (("course-widgets.js", script()), ("course-widgets.css", style())):
        write_whole(folder / name, text)
        print(folder / name)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit(
            "python -m course.lessons.saved_widgets FOLDER writes into a folder that is there."
        )
    main(Path(sys.argv[1]))
