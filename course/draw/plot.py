"""What the plots of speeds have in common: axes, a legend below, and texts beside lines."""

from matplotlib.axes import Axes

from course.display.colors import DARK
from course.display.picture import Picture, new_axes


def new_plot(height: float = 4.4) -> Axes:
    """Axes with a pale grid, and no lines above and at the right. height: in inches."""
    axes = new_axes(9, height)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def write_beside(
    axes: Axes,
    text: str,
    place: tuple[float, float],
    offset: tuple[int, int],
    side: str,
    size: float = 9,
    va: str = "baseline",
) -> None:
    """A text that ends ("right") or begins ("left") beside a place: `offset` points from it."""
    axes.annotate(
        text, place, xytext=offset, textcoords="offset points", ha=side, va=va, fontsize=size,
        color=DARK,
    )  # fmt: skip


def plot_picture(axes: Axes, alt: str, columns: int = 2) -> Picture:
    """The picture of a plot, with its legend below. columns: of the legend."""
    axes.figure.legend(loc="outside lower center", ncols=columns, fontsize=8.5, frameon=False)
    return Picture.of_axes(axes, alt)
