"""A picture for a notebook: a PNG with a text that says the same, for those who do not see it."""

import base64
import html
import io
from pathlib import Path
from typing import TYPE_CHECKING

from course.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Span = tuple[float, float]

WIDTH = 9.0
"""Inches of the widest picture: JupyterLab has 920 CSS pixels for it on a laptop."""
DPI = 200
"""Of a picture: two pixels for a CSS pixel, for sharp screens."""
NARROWEST = 600
"""CSS pixels below which a picture is not made narrower: it scrolls sideways instead."""


class Picture:
    """A PNG and its alternative text. A notebook shows the picture; a terminal prints the text."""

    def __init__(self, png: bytes, alt: str, width: int) -> None:
        self.png = png
        self.alt = alt
        self.width = width
        """In CSS pixels; the PNG holds twice as many, for sharp screens and projectors."""

    @classmethod
    def of(cls, figure: "Figure", alt: str, colors: int = 64) -> "Picture":
        """Render a matplotlib figure. The bytes depend on the figure alone: no date, no version.

        colors: a palette of 64 looks the same in a third of the bytes; of 24, if all is flat, in
            a fourth.
        """
        from PIL import Image

        rendered, png = io.BytesIO(), io.BytesIO()
        figure.savefig(rendered, format="rgba", dpi=DPI, facecolor="white")
        # Whole pixels: `new_figure` makes each figure.
        size = tuple(round(inches * DPI) for inches in figure.get_size_inches())
        image = Image.frombytes("RGBA", size, rendered.getvalue()).convert("RGB")
        image.quantize(colors, dither=Image.Dither.NONE).save(png, format="png", optimize=True)
        return cls(png.getvalue(), alt, width=round(figure.get_figwidth() * 100))

    @classmethod
    def of_sketch(
        cls, axes: "Axes", across: Span, up: Span, alt: str, colors: int = 64
    ) -> "Picture":
        """Render what was drawn in `new_axes`, without the axes.

        across, up: what is shown, from where to where. colors: as `of` takes them.
        """
        axes.set(xlim=across, ylim=up)
        axes.axis("off")
        return cls.of_axes(axes, alt, colors)

    @classmethod
    def of_axes(cls, axes: "Axes", alt: str, colors: int = 64) -> "Picture":
        """Render the figure that axes are in, as `of` does."""
        figure = axes.get_figure(root=True)
        assert figure is not None
        return cls.of(figure, alt, colors)

    def save(self, path: str | Path) -> None:
        """Write the PNG. Raises CourseError if it cannot be written."""
        write_whole(Path(path), self.png)

    @property
    def source(self) -> str:
        """The PNG as a data URL."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode()}"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        # JupyterLab shows a bare image/png without its alternative text, so the image goes in HTML.
        return {"text/html": image_html(self.source, self.alt, self.width), "text/plain": self.alt}

    def __repr__(self) -> str:
        return self.alt


def image_html(source: str, alt: str, width: int) -> str:
    """An image as wide as its page at most; on a phone it scrolls, so that its words stay legible.

    source: a URL. width: in CSS pixels.
    """
    style = f"max-width:100%;min-width:{min(width, NARROWEST)}px"
    image = f'<img src="{source}" alt="{html.escape(alt)}" width="{width}" style="{style}">'
    return f'<div style="overflow-x:auto">{image}</div>'


def new_figure(width: float, height: float) -> "Figure":
    """A figure of this size in inches, at 100 CSS pixels an inch.

    pyplot does not know it, so nothing shows it twice.
    """
    from matplotlib.figure import Figure

    size = (round(width, 2), round(height, 2))  # whole pixels
    return Figure(figsize=size, layout="constrained")


def new_axes(width: float, height: float) -> "Axes":
    """The axes of a figure of this size in inches, on which all of a sketch is drawn."""
    axes: Axes = new_figure(width, height).subplots()
    return axes
