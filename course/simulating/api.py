"""simulate: a Gluon kernel followed without a GPU."""

import inspect
from collections.abc import Sequence

from triton import JITFunction, KernelInterface

from course.errors import CourseError
from course.lowering.recorded_grid import with_recorded
from course.triton_internals.jit_functions import inner_kernel, is_gluon
from course.type_names import Kernel

from .constants import unwrapped
from .faults import HazardError
from .kernel_values import Argument
from .machine import Machine
from .partitions import ORDERS, Order
from .tensors import Storages


def simulate(
    kernel: Kernel,
    grid: int | tuple[int, ...],
    *args: Argument,
    num_warps: int = 4,
    orders: Sequence[Order] = ORDERS,
    **kwargs: Argument,
) -> None:
    """Run a Gluon kernel in Python, one program after the other, and write what it writes.

    Partitions take turns, and what is asynchronous happens as late as it may: so memory that is
    read too early, or overwritten too soon, is found where a GPU may be lucky.

    Blocks of different layouts in one operation are refused, as by Gluon's compiler, layouts for
    another number of warps, and blocks that do not fit a buffer; the compiler alone works out
    layouts that are left open. Lanes or programs that write different values to one place are
    found, programs that read what another one writes, and partitions that share a buffer with no
    barrier in between. A program is stopped after so many steps, not seconds. Not looked at: how
    long anything takes, waits between the threads of a partition, which the compiler places, the
    fence behind a barrier's initialization, how much shared memory is alive at once, and what
    Python's own integers do in a loop where a GPU's would wrap.

    grid, args, kwargs: as for a launch; what a tuner would choose is given too. orders: who goes
    next; the kernel is run once in each of them.
    Raises DeadlockError where nobody can go on, HazardError where memory is used too early or too
    late, UnsupportedError for what the simulation does not know, and SimulationError, which all of
    these are, for anything else that stops a kernel.
    """
    kernel = inner_kernel(kernel) if isinstance(kernel, KernelInterface) else kernel
    if not isinstance(kernel, JITFunction) or not is_gluon(kernel):
        raise CourseError("simulate takes a kernel of Gluon: a function under @gluon.jit.")
    grid, kwargs = with_recorded(grid, kwargs)
    num_warps = kwargs.pop("num_warps", num_warps)
    axes = grid if isinstance(grid, tuple) else (grid,)
    if not 1 <= len(axes) <= 3 or not all(isinstance(n, int) and n >= 0 for n in axes):
        raise CourseError(f"simulate takes a grid of one to three axes, as (4,), and not {grid!r}.")
    x, y, z = (*axes, 1, 1)[:3]
    # As a GPU numbers them: along x first.
    places = [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]
    if not isinstance(orders, (tuple, list)) or not orders or not {*orders} <= {*ORDERS}:
        raise CourseError(f"simulate takes some of the orders {ORDERS}, and not {orders!r}.")
    bound = _bound(kernel, args, kwargs, num_warps)
    constants = {parameter.name for parameter in kernel.params if parameter.is_constexpr}
    results = []
    for order in orders:
        results.append(storages := Storages())
        arguments = {
            name: unwrapped(value) if name in constants else storages.argument(name, value)
            for name, value in bound.arguments.items()
        }
        for number, place in enumerate(places):
            storages.begin(number)
            Machine(place, (x, y, z), num_warps, order).run(kernel, arguments)
        storages.add_sums()
        if not storages.equal(results[0]):
            raise HazardError(
                f"What {kernel.__name__} writes depends on which partition goes first."
            )
    storages.write_back()


def _bound(
    kernel: JITFunction, args: tuple[Argument, ...], kwargs: dict[str, Argument], num_warps: int
) -> inspect.BoundArguments:
    """A launch's arguments by name. A kernel may take num_warps as well."""
    signature = inspect.signature(kernel.fn)
    try:
        if "num_warps" in signature.parameters:
            named = signature.bind_partial(*args).arguments
            kwargs = kwargs if "num_warps" in named else {**kwargs, "num_warps": num_warps}
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise CourseError(f"{kernel.__name__} takes {signature}: {error}.") from None
    bound.apply_defaults()
    return bound
