"""What a picture was made of, for tests that look where its parts lie."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from course.display.picture import Picture


@pytest.fixture
def drawn_figure(monkeypatch):
    """The figure of the picture that was drawn last, when it is called."""
    figures, of = [], Picture.of

    def noting(figure, *args, **kwargs):
        figures.append(figure)
        return of(figure, *args, **kwargs)

    monkeypatch.setattr(Picture, "of", noting)

    def last():
        FigureCanvasAgg(figures[-1]).draw()  # at its own resolution: a picture has twice that
        return figures[-1]

    return last
