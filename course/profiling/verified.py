"""A recorded launch as a function of its tensors, so that `verify` can judge it."""

import torch

from course.errors import CourseError
from course.tracing.copies import Copies
from course.tracing.recorder import Launch
from course.tracing.result import Cost
from course.triton_internals.choices import with_choices
from course.triton_internals.jit_functions import inner_kernel
from course.type_names import Function
from course.verifying.api import verify
from course.verifying.inputs import Case, Input
from course.verifying.result import Verified


def verified(launch: Launch, counted: Cost, reference: Function, output: str | None) -> Verified:
    """See `Row.verify`. launch: with tensors that hold numbers."""
    names = inner_kernel(launch.kernel).arg_names
    given = dict(zip(names, launch.args, strict=False)) | launch.kwargs
    done = {(each.tensor, each.kind) for each in counted.accesses}
    written = [name for name in given if done & {(name, "store"), (name, "update")}]
    read = [name for name in given if done & {(name, "load"), (name, "update")}]
    drawn = [name for name in read if given[name].is_floating_point()]
    result = output or next(iter(written), "")
    if result not in written:
        raise CourseError(f"{launch.name} writes {written}: name one of these as output.")

    def launched(*inputs: torch.Tensor) -> torch.Tensor:
        again = launch.copied(Copies())
        options = with_choices(again.kernel, again.args, again.kwargs)
        named = dict(zip(names, again.args, strict=False)) | options
        for name, value in zip(drawn, inputs, strict=True):
            named[name].copy_(value)
        inner_kernel(again.kernel)[tuple(again.grid)](*again.args, **options)
        out: torch.Tensor = named[result]
        return out

    launched.__name__ = launch.name
    case = Case(tuple(Input(tuple(given[name].shape), given[name].dtype) for name in drawn))
    return verify(launched, reference, [case])
