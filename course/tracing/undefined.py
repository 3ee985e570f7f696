"""What of a program depends on lanes that the language leaves undefined.

A program is recorded twice: with 0 in those lanes, as compiled code has it in practice, and with
extremes. What comes out alike does not depend on them; the rest is undefined.
"""

from itertools import zip_longest

import msgspec
import numpy as np

from .records import Cells, ProgramSteps, Step, Touch, Value, finite_range

NOTE = (
    "Masked lanes that are loaded without `other` are undefined, and what is stored depends on "
    "them: give `other`. Compiled code puts 0 there in practice, and the values shown go by that."
)


def marked(recorded: ProgramSteps, otherwise: ProgramSteps) -> ProgramSteps:
    """A program recorded with 0 in undefined lanes, with what depends on them marked.

    otherwise: the same program with extremes there. Where the two part, all that follows depends
        on them.
    """
    steps, parted = [], False
    for step, other in zip_longest(recorded.steps, otherwise.steps):
        if step is None:
            break
        parted = parted or other is None or other.row != step.row
        steps.append(_step(step, None if parted else other))
    return ProgramSteps(recorded.program, steps, recorded.cut)


def _step(step: Step, other: Step | None) -> Step:
    others = dict(other.sets) if other else {}
    sets = {name: _value(value, others.get(name)) for name, value in step.sets.items()}
    touches = zip_longest(step.touches, other.touches if other else [])
    return msgspec.structs.replace(
        step, sets=sets, touches=[_touch(one, two) for one, two in touches if one]
    )


def _touch(touch: Touch, other: Touch | None) -> Touch:
    text = touch.text
    if other is None or (other.text, other.cells) != (text, touch.cells):
        text += ", undefined which"
    value = touch.value and _value(touch.value, other.value if other else None)
    if value != touch.value:
        text += ", undefined values"
    return msgspec.structs.replace(touch, text=text, value=value)


def _value(value: Value, other: Value | None) -> Value:
    if value.text is not None:
        if other is not None and other.text == value.text:
            return value
        text = f"undefined ({value.text} with 0 in masked lanes)"
        return msgspec.structs.replace(value, text=text)
    if value.data is None:
        return value
    shown = value.data.numbers
    active = np.ones(shown.shape, bool) if value.mask is None else value.mask.numbers.astype(bool)
    differs = active.copy()
    if other is not None and other.data is not None and other.shape == value.shape:
        differs &= ~_same(shown, other.data.numbers)
    if not differs.any():
        return value
    defined = active & ~differs
    numbers = shown[defined]
    whole = value.patch == (1, 1)  # else a cell shows one of its elements alone
    least, most = finite_range(numbers) if whole else (None, None)
    return msgspec.structs.replace(
        value,
        mask=Cells.of(defined),
        undefined=int(differs.sum()) if whole else -1,
        least=least,
        most=most,
        nan=int(np.isnan(numbers).sum()),
        inf=int(np.isinf(numbers).sum()),
    )


def _same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    same: np.ndarray = (one == other) | ((one != one) & (other != other))
    return same
