"""How the loss of a model goes down while it is trained."""

from course.benching.training import LABELS, Training
from course.display.picture import Picture

from .arguments import check_kind, check_whole
from .plot import new_plot, plot_picture
from .series_style import style_of

SERIES = {"ours": "flash_attention", "torch": "torch", "formula": "formula"}
"""Run -> the series whose color it has in other plots."""
DASHES = ((0, ()), (0, (6, 3)), (0, (1, 2)))
"""Lines that lie on each other: gaps let each be seen."""


def losses(result: Training, steps: int | None = None) -> Picture:
    """The loss before each step of training, a line for each kind of attention.

    result: what `training()` returns. steps: how many to show, from the first on; by default all.
    """
    check_kind("losses", result, Training, "what training() returns")
    if steps is not None:
        check_whole("losses", steps=steps)
    axes, sentences = new_plot(3.4), []
    for rank, (name, run) in enumerate(result.runs.items()):
        color = style_of(SERIES[name], rank).color
        width = 2.5 - 0.6 * rank
        axes.plot(run.losses[:steps], color=color, ls=DASHES[rank], lw=width, label=LABELS[name])
        sentences.append(f"{LABELS[name]} from {run.losses[0]:.2f} to {run.losses[:steps][-1]:.3f}")
    axes.set(xlabel="steps", ylabel="loss", ylim=(0, None))
    axes.set_title(result.origin(result.machine.gpu), fontsize=9.5)
    return plot_picture(axes, f"The loss goes, {'; '.join(sentences)}.", len(result.runs))
