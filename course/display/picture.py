"""A picture for a notebook: a PNG with a text that says the same, for those who do not see it."""

import base64
import html
import io
from pathlib import Path
from typing import TYPE_CHECKING

from course.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette (2008), which people with any colour vision can tell apart.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", "#000000")
GREY = "#999999"
LIGHT = "#E8E8E8"


def ink(colour: str) -> str:
    """Black or white, whichever can be read on `colour` (given as #RRGGBB)."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 125 else "white"


class Picture:
    """A PNG and its alternative text. A notebook shows the picture; a terminal prints the text."""

    def __init__(self, png: bytes, alt: str, width: int) -> None:
        self.png = png
        self.alt = alt
        self.width = width
        """In CSS pixels; the PNG holds twice as many, for sharp screens and projectors."""

    @classmethod
    def of(cls, figure: "Figure", alt: str, colours: int = 64) -> "Picture":
        """Render a matplotlib figure. The bytes depend on the figure alone: no date, no version.

        colours: a palette of 64 looks the same in a third of the bytes; of 24, if all is flat, in
            a fourth.
        """
        from PIL import Image

        rendered, small = io.BytesIO(), io.BytesIO()
        plain = {"Software": None}
        figure.savefig(rendered, format="png", dpi=200, facecolor="white", metadata=plain)
        image = Image.open(rendered).convert("RGB").quantize(colours, dither=Image.Dither.NONE)
        image.save(small, format="png", optimize=True)
        return cls(small.getvalue(), alt, width=int(figure.get_figwidth() * 100))

    def save(self, path: str | Path) -> None:
        """Write the PNG. Raises CourseError if it cannot be written."""
        write_whole(Path(path), self.png)

    @property
    def source(self) -> str:
        """The PNG as a data URL."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        # JupyterLab shows a bare image/png without its alternative text, so the image goes in HTML.
        size = f'width="{self.width}" style="max-width:100%"'
        image = f'<img src="{self.source}" alt="{html.escape(self.alt)}" {size}>'
        return {"text/html": image, "text/plain": self.alt}

    def __repr__(self) -> str:
        return self.alt


def new_figure(width: float, height: float) -> "Figure":
    """A figure of this size in inches, at 100 CSS pixels an inch.

    pyplot does not know it, so nothing shows it twice.
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")
