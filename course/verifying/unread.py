"""Whether a wrong element depends on a part of the inputs that the program which stores it never
reads."""

import contextlib
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from course.tracing.address_map import Argument
from course.tracing.likely_causes import Followed
from course.tracing.records import program_text

SEEN = 1e-3
"""The part of an element, or of 1 below that, by which it must change to depend on something."""


def unread_input(
    followed: Followed,
    inputs: Sequence[tuple[str, Tensor]],
    out: Tensor,
    index: tuple[int, ...],
    reference: Callable[..., Tensor],
) -> tuple[str, str]:
    """The first number that a wrong element needs and that is not read for it: its tensor's name,
    and a sentence; both are empty if there is none.

    inputs: the function's, as the launch was given them, with their names. reference: takes these
        in float64, and gives the right result.
    """
    loads = [each for each in followed.accesses if each.kind == "load" and each.addresses.size]
    stores = [each for each in followed.accesses if each.kind != "load"]
    writers = {each.program for each in followed.writes(out, index)}
    arguments = [Argument.of(name, tensor) for name, tensor in inputs]
    # What programs hand on to one another, each may have from another's reads.
    handed_on = any(
        all(each.numbers(load.addresses[:1]) < 0 for each in arguments) for load in loads
    )
    alone = len(writers) == 1 and not handed_on and all(each.kind == "store" for each in stores)
    read = [each for each in loads if not alone or each.program in writers]
    exact = [tensor.double() if tensor.is_floating_point() else tensor for _, tensor in inputs]

    def depends(number: int, elements: np.ndarray) -> bool:
        changed = exact[number].clone(memory_format=torch.contiguous_format)
        places = torch.from_numpy(elements)
        changed.view(-1)[places] = 1 + 1.5 * changed.view(-1)[places]
        given = [changed if i == number else each for i, each in enumerate(exact)]
        return abs(float(reference(*given)[index]) - right) > SEEN * max(1.0, abs(right))

    with contextlib.suppress(Exception):  # a reference may refuse other numbers
        right = float(reference(*exact)[index])
        for number, argument in enumerate(arguments):
            unread = np.ones(argument.elements, dtype=bool)
            for load in read:
                elements = argument.numbers(load.addresses)
                unread[elements[elements >= 0]] = False
            places = np.flatnonzero(unread)
            if not exact[number].is_floating_point() or not depends(number, places):
                continue
            while places.size > 1:
                first, second = np.array_split(places, 2)
                places = first if depends(number, first) else second
            if not depends(number, places):  # but only on several at once
                continue
            if not any((argument.numbers(each.addresses) >= 0).any() for each in loads):
                return argument.name, f"This element needs {argument.name}, which nobody reads."
            text, place = f"This element needs {argument.place(int(places[0]))}", places[0]
            if not alone:
                return argument.name, f"{text}, which nobody reads."
            (writer,) = writers
            named = program_text(writer, grid=followed.launch.grid)
            text += f", and program {named}, which stores it, reads "
            there = np.flatnonzero(~unread)
            if not there.size:
                return argument.name, f"{text}nothing of {argument.name}."
            begin, end = (argument.place(int(each)) for each in (there[0], there[-1]))
            if there[0] < place < there[-1]:
                return argument.name, f"{text}only others, from {begin} to {end}."
            return argument.name, f"{text}only {begin} to {end}."
    return "", ""
