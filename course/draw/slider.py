"""slide: a slider over the values of one setting, and the picture for each. Works in a saved notebook too."""

import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from course.display.picture import Picture
from course.display.widget import with_static
from course.errors import CourseError


def slide(picture: Callable[[Any], Picture], /, **values: Sequence[Any]) -> "Slide":
    """Show `picture(value)` for each value of the one setting named, with a slider to choose.

    As in slide(lambda num_warps: draw.layout(lower(kernel, …, num_warps=num_warps), "x"), num_warps=[1, 2, 4, 8]).
    """
    if (
        len(values) != 1
        or not isinstance(next(iter(values.values())), (list, tuple, range))
        or not callable(picture)
    ):
        raise CourseError("draw.slide takes one setting with its values, as num_warps=[1, 2, 4].")
    ((name, choices),) = values.items()
    if not choices:
        raise CourseError(f"draw.slide needs values of {name} to choose from.")
    frames = []
    for value in choices:
        shown = picture(value)
        if not isinstance(shown, Picture):
            raise CourseError(
                f"draw.slide needs a function that returns a picture, as draw.layout does; it returned {shown!r:.60}."
            )
        frames.append([str(value), shown.source, shown.alt, shown.width])
    return Slide(name, frames)


class Slide(anywidget.AnyWidget):
    """All frames, drawn already, and a slider."""

    _esm = Path(__file__).with_suffix(".js")

    name = traitlets.Unicode().tag(sync=True)
    frames: Any = traitlets.List().tag(sync=True)
    """One a value: the value, the picture as a data URL, its alternative text, its width."""

    def __init__(self, name: str, frames: list[list[Any]]) -> None:
        super().__init__(name=name, frames=frames)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        parts = [
            f"<p>{html.escape(self.name)} = {html.escape(value)}</p>"
            f'<img src="{source}" alt="{html.escape(alt)}" width="{width}" style="max-width:100%">'
            for value, source, alt, width in self.frames
        ]
        text = "\n".join(f"{self.name} = {value}: {alt}" for value, _, alt, _ in self.frames)
        static = {"text/html": "\n".join(parts), "text/plain": text}
        own = super()._repr_mimebundle_
        return with_static(static, lambda: own(**kwargs))
