"""replay marks what depends on lanes that the language leaves undefined."""

import torch

from course import replay
from tests.tracing import kernels_uneven as kernels

NOTE = "Masked lanes that are loaded without `other` are undefined, and what is stored depends"


def mean_squares(columns):
    x = torch.arange(3.0 * columns).reshape(3, columns)
    args = x, torch.zeros(3, columns), columns
    shown = replay(kernels.mean_square_kernel, (3,), *args, BLOCK=16, program=1)
    return shown, {name: value for step in shown.steps for name, value in step.sets.items()}


def test_what_is_computed_from_undefined_lanes_is_said_to_be_undefined():
    shown, values = mean_squares(10)
    true = float((torch.arange(10.0, 20) ** 2).mean())
    for name, number in (("mean_square", true), ("scale", true**-0.5)):
        assert values[name].text == f"undefined ({number:.6g} with 0 in masked lanes)"
    assert any(note.startswith(NOTE) for note in shown.trace["notes"])
    stored = shown.steps[-1].touches[0]
    assert stored.text.endswith("undefined values") and stored.value.undefined == 10


def test_lanes_are_marked_one_by_one_and_leave_the_others_as_they_are():
    shown, values = mean_squares(10)
    x, doubled = values["x"], values["doubled"]
    assert (x.masked, x.undefined) == (6, 0)  # a mask says so already
    assert (doubled.undefined, doubled.inf, doubled.nan) == (6, 0, 0)
    assert (doubled.least, doubled.most) == (20, 38)
    assert doubled.mask.numbers.tolist() == [1] * 10 + [0] * 6
    assert "doubled: fp32 [16] 20 … 38, 6 undefined" in str(shown)


def test_where_no_lane_is_masked_nothing_is_undefined():
    shown, values = mean_squares(16)
    assert "undefined" not in str(shown)
    assert values["doubled"].mask is None and shown.trace["notes"] == []
