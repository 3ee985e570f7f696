"""What is wrong with the way in which an answer gets the right values: waste, or PyTorch's work."""

from collections.abc import Iterator

from course.exercises.kinds import CodeExercise, LauncherExercise
from course.exercises.result import Judged, wrong
from course.tracing.races import FREE_PROGRAMS
from course.verifying.inputs import Case
from course.verifying.result import WorkDone


def work_problem(exercise: CodeExercise, case: Case, work: WorkDone) -> Judged | None:
    """The first thing to say against an answer's work on a case; None if there is nothing."""
    for kind, reason in _problems(exercise, case, work):
        return wrong(kind, reason)
    return None


def done_by_torch(exercise: CodeExercise, work: WorkDone) -> Judged | None:
    """The verdict for an answer by which PyTorch computed, or copied where it may not; None if the
    kernels did the work."""
    if isinstance(exercise, LauncherExercise):
        if work.torch_operations:
            names = ", ".join(dict.fromkeys(work.torch_operations))
            text = f"It computes with PyTorch ({names}): let the kernel do that."
            return wrong(f"PyTorch computes {names}", text)
        if work.torch_copies and not exercise.may_copy:
            instead = "let the kernel read the elements where they lie"
            text = f"It copies with PyTorch (`.contiguous()`, perhaps): {instead}."
            return wrong("PyTorch copies", text)
    return None


def _problems(exercise: CodeExercise, case: Case, work: WorkDone) -> Iterator[tuple[str, str]]:
    """The kind of each problem, and a sentence."""
    if isinstance(exercise, LauncherExercise) and case.elements:
        yield from _launcher_problems(exercise, case, work)
    kernels, right_but = work.kernels, "The values are right, but"
    most_launches = exercise.most_launches
    if most_launches is not None and kernels.launches > most_launches:
        took = f"{kernels.launches} launches where {most_launches} will do"
        yield "launches", f"{right_but} it took {took}."
    if kernels.idle_programs > max(FREE_PROGRAMS, 8 * kernels.busy_programs):
        programs = kernels.idle_programs + kernels.busy_programs
        busy = f"of {programs:,} programs {kernels.busy_programs:,} had an element to work on"
        yield "idle programs", f"{right_but} {busy}: look at the grid."
    if exercise.least_programs is not None:
        least = exercise.least_programs(*case.arguments("cpu"))
        if kernels.programs < least:
            wanted = f"where {least:,} would each have enough to do"
            started = f"it started {kernels.programs:,} programs"
            yield "few programs", f"{right_but} {started} {wanted}."
    if exercise.most_bytes is not None:
        most = exercise.most_bytes(*case.arguments("cpu"))
        if kernels.bytes_moved > most:
            moved = f"it moved {kernels.bytes_moved:,} bytes where {most:,} will do"
            yield "bytes", f"{right_but} {moved}: `cost` and `diagnose` say in which line."
    if exercise.own_elements and kernels.shared_elements:
        shared = f"{kernels.shared_elements:,} elements are written by more than one program"
        own = "a mask, or a loop's step, keeps each program to its own"
        yield "shared elements", f"{right_but} {shared}: {own}."
    if exercise.in_order and kernels.back_and_forth:
        back = "a program goes back and forth over the result: count row after row"
        yield "order", f"{right_but} {back}."


def _launcher_problems(
    exercise: LauncherExercise, case: Case, work: WorkDone
) -> Iterator[tuple[str, str]]:
    if by_torch := done_by_torch(exercise, work):
        yield by_torch.kind, by_torch.reason
    if not work.kernels.launches:
        yield "no launch", "It launched no kernel."
    if not work.result_stored:
        yield "not stored", "What it returned was stored by no kernel."
    if case is exercise.cases[0] and work.kernels.launches <= exercise.trials:
        yield (
            "no trials",
            "The values are right, but its first call does not try "
            f"{exercise.trials} configurations: keep @triton.autotune as it is, "
            "and fix what it does to the arguments.",
        )
    if exercise.in_place and work.others_stored:
        yield (
            "other tensors",
            "The values are right, but a kernel also stored to a tensor that is not returned. "
            "Leave the launcher as it is, and fix what @triton.autotune does to the arguments.",
        )
