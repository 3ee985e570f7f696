"""A recorded launch as a function of its tensors, so that `verify` can judge it."""

import torch

from course import DEVICE
from course.errors import CourseError
from course.tracing.copies import Copies, Filled
from course.tracing.recorder import Launch
from course.tracing.result import Cost
from course.triton_internals.choices import with_choices
from course.triton_internals.jit_functions import inner_kernel
from course.type_names import AnyValues, Function
from course.verifying.api import verify
from course.verifying.inputs import Case, Input
from course.verifying.result import Verified


def verified(launch: Launch, counted: Cost, reference: Function, output: str | None) -> Verified:
    """See `Row.verify`. counted: which tensors it reads and writes."""
    tensors = {
        name: value for name, value in _named(launch).items() if isinstance(value, torch.Tensor)
    }
    done = {(each.tensor, each.kind) for each in counted.accesses}
    written = [name for name in tensors if done & {(name, "store"), (name, "update")}]
    read = [name for name in tensors if done & {(name, "load"), (name, "update")}]
    drawn = [name for name in read if tensors[name].is_floating_point()]
    result = output or next(iter(written), None)
    if result is None or result not in written:
        listed = ", ".join(written) or "no tensor"
        raise CourseError(f"{launch.name} writes {listed}: name one of these as output.")
    made = launch.copied(Filled(DEVICE, seed=0))

    def launched(*inputs: torch.Tensor) -> torch.Tensor:
        again = made.copied(Copies())
        named = _named(again)
        for name, value in zip(drawn, inputs, strict=True):
            named[name].copy_(value)
        options = with_choices(again.kernel, again.args, again.kwargs)
        inner_kernel(again.kernel)[tuple(again.grid)](*again.args, **options)
        written_to: torch.Tensor = named[result]
        return written_to

    launched.__name__ = launch.name
    inputs = tuple(Input(tuple(tensors[name].shape), tensors[name].dtype) for name in drawn)
    return verify(launched, reference, [Case(inputs)])


def _named(launch: Launch) -> AnyValues:
    """A launch's arguments by their parameters' names."""
    by_place = dict(zip(inner_kernel(launch.kernel).arg_names, launch.args, strict=False))
    return by_place | dict(launch.kwargs)
