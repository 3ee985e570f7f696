"""slide: a picture for each value of one setting, and a slider; in a saved notebook too."""

import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from course.display.picture import Picture, image_html
from course.display.widget import script, with_static
from course.errors import CourseError
from course.type_names import AnyValue

Frame = tuple[str, str, str, int]
"""A value, its picture as a data URL, the picture's alternative text and its width."""


def slide(picture: Callable[[Any], Picture], /, **values: Sequence[Any]) -> "Slide":
    """Show `picture(value)` for each value of the one setting named, with a slider to choose.

    As in slide(lambda warps: draw.layout(lower(kernel, …, num_warps=warps), "x"), warps=[1, 2, 4]).
    """
    name, choices = next(iter(values.items()), ("", None))
    if len(values) != 1 or not isinstance(choices, (list, tuple, range)) or not callable(picture):
        raise CourseError("draw.slide takes one setting with its values, as num_warps=[1, 2, 4].")
    if not choices:
        raise CourseError(f"draw.slide needs values of {name} to choose from.")
    return Slide(name, [_frame(picture, value) for value in choices])


def _frame(picture: Callable[[Any], Picture], value: AnyValue) -> Frame:
    drawing = picture(value)
    if not isinstance(drawing, Picture):
        raise CourseError(
            "draw.slide needs a function that returns a picture, as draw.layout does; "
            f"it returned {drawing!r:.60}."
        )
    return str(value), drawing.source, drawing.alt, drawing.width


class Slide(anywidget.AnyWidget):
    """All frames, drawn already, and a slider."""

    _esm = script(Path(__file__).with_suffix(""))

    name = traitlets.Unicode().tag(sync=True)
    frames: traitlets.List[Frame] = traitlets.List().tag(sync=True)

    def __init__(self, name: str, frames: list[Frame]) -> None:
        super().__init__(name=name, frames=frames)

    def _repr_mimebundle_(self, **kwargs: AnyValue) -> Any:
        parts = [
            f"<p>{html.escape(self.name)} = {html.escape(value)}</p>"
            + image_html(source, alt, width)
            for value, source, alt, width in self.frames
        ]
        text = "\n".join(f"{self.name} = {value}: {alt}" for value, _, alt, _ in self.frames)
        static = {"text/html": "\n".join(parts), "text/plain": text}
        own = super()._repr_mimebundle_
        state = {"name": self.name, "values": [value for value, *_ in self.frames]}
        return with_static("slide", lambda: state, static, lambda: own(**kwargs))
