"""diagnose: what limits a launch, in order of estimated effect."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from course.errors import CourseError
from course.gpus.own_gpu import own_gpu
from course.gpus.peaks import gpu_of
from course.gpus.turn import gpu_turn
from course.isolate import warm
from course.lowering.api import Lowered, Request, lower_again
from course.lowering.memory_requests import requests_of
from course.tracing import worker
from course.tracing.api import this_gpu
from course.tracing.launch import LaunchRequest, packed, requested, runs_here, value_of
from course.tracing.records import LaunchCounts
from course.tracing.sample import Plan
from course.tracing.survey import notes_of, planned
from course.triton_internals.jit_functions import is_gluon
from course.type_names import AnyValue, Kernel

from .evidence import Evidence
from .experiments.blame import blamed
from .experiments.result import Experiments
from .experiments.run import experiments_on
from .machine_code import disassembled, machine_code_of
from .result import LEAST_GAIN, Diagnosis, Finding
from .rules import FACTS, findings_of
from .time_model import Work

FOLLOWED = Plan(most=64, operations=50_000)
"""How much of a launch is followed: a sample of so many programs of a larger grid."""
MOST_TRIED_BYTES = 2**32
"""Bytes of tensors up to which experiments are made: they pass through a file."""
FOLLOWED_S = 20
"""Seconds of computing after which programs are followed no further, whatever they do."""


def diagnose(
    kernel: Kernel, grid: Any, *args: AnyValue, target: str | None = None, **kwargs: AnyValue
) -> Diagnosis:
    """What limits one launch: causes with their numbers, lines and changes to try.

    kernel, grid, args, kwargs: as in kernel[grid](*args, **kwargs). Of a grid of more than 64
        programs a sample is run in the interpreter. Tensors on the device "meta" take no memory and
        hold zeros.
    target: a GPU with known peak figures, as `cost` takes it; by default this machine's, and an
        H200 if it has none. The kernel is compiled for it.

    The causes stand in the order of what mending them is estimated to gain. On the very GPU that
    is asked for, parts of the kernel are taken out and the rest is timed, on copies, for up to half
    a minute: then they stand in the order of what that saves. A kernel that the interpreter cannot
    follow, and one in Gluon, is judged by what the compiler made of it, without estimates.

    Raises CourseError if the arguments are no launch, or the launch fails or does not fit the GPU;
    LowerError if the kernel does not compile.
    """
    gpu = gpu_of(target) if target is not None else this_gpu(own_gpu())
    launch = requested("diagnose", kernel, grid, args, kwargs)
    tried = runs_here(launch, gpu)
    warm("compile", "interpret")
    if tried:
        warm("launch")
    lowered = lower_again(Request.of(launch.reference, launch.args, launch.kwargs), gpu.target)
    _refuse_what_does_not_fit(lowered, launch.name, gpu.name)
    # The disassembler runs while programs are followed. Nothing else does: two threads of Python
    # 3.11 cannot parse sources at the same time (https://github.com/python/cpython/issues/106905).
    with ThreadPoolExecutor(1) as beside:
        listing = None if is_gluon(launch.kernel) else beside.submit(disassembled, lowered)
        counts, notes = _followed(launch, lowered)
    code = machine_code_of(lowered, listing.result()) if listing else None
    evidence = Evidence(launch, lowered, counts, gpu, code)
    if unreal := evidence.unreal_values:
        notes.append(
            f"On the device 'meta' {' and '.join(unreal)} held zeros, which decided the places, "
            "masks or loops of the kernel: pass real values."
        )
    found, experiments = ranked([*findings_of(evidence)], evidence.work), None
    if tried:
        experiments, problems = _experiments(launch, lowered)
        notes += problems
    found = blamed(evidence, found, experiments) if experiments else worth_naming(found)
    return Diagnosis(
        kernel=launch.name,
        target=gpu.name,
        programs=evidence.programs,
        findings=found,
        facts=tuple(fact for rule in FACTS for fact in rule(evidence)),
        work=evidence.work,
        measured_us=experiments.us if experiments else None,
        notes=tuple(notes),
        experiments=experiments,
    )


def _experiments(launch: LaunchRequest, lowered: Lowered) -> tuple[Experiments | None, list[str]]:
    """What experiments with a launch have shown, or a sentence that says why there are none."""
    try:
        with packed(launch, MOST_TRIED_BYTES) as packed_launch, gpu_turn(f"diagnose {launch.name}"):
            return experiments_on(lowered, packed_launch), []
    except CourseError as error:
        return None, [f"Nothing could be measured: {str(error).rstrip('.')}."]


def _refuse_what_does_not_fit(lowered: Lowered, kernel: str, gpu: str) -> None:
    """Raise CourseError for a kernel that the GPU cannot launch: no time can be estimated."""
    resources = lowered.resources
    if resources.shared_bytes > resources.most_shared_bytes:
        has = f"{resources.shared_bytes:,} bytes of shared memory"
        most, change = resources.most_shared_bytes, "take smaller blocks, or a smaller num_stages"
    else:
        has, most = f"{resources.num_warps} warps", resources.most_warps
        change = f"give num_warps={most} or fewer"
    if not resources.fits:
        raise CourseError(
            f"{kernel} cannot be launched on {gpu}: a program has {has}, and may have {most:,}: "
            f"{change}."
        )


def ranked(findings: list[Finding], work: Work | None) -> tuple[Finding, ...]:
    """Findings with their estimated gains, what is certain first, and then the largest gain.

    Of equal gains the one comes first that takes more off the parts which do not bind yet, and what
    waits before what would hide the wait; without an estimate they stay in the order of the rules.
    """

    def gains(finding: Finding) -> tuple[float, bool, float]:
        if work is None or finding.mended is None:
            return 1, False, 0
        gain = max(1, work.us / finding.mended.us)
        return gain, finding.cause != "occupancy", work.sum_us - finding.mended.sum_us

    ordered = sorted(findings, key=lambda each: (each.certain, gains(each)), reverse=True)
    return tuple(replace(finding, gain=gains(finding)[0]) for finding in ordered)


def worth_naming(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings without those that gain nothing."""
    return tuple(
        each for each in findings if each.always or each.mended is None or each.gain >= LEAST_GAIN
    )


def _followed(launch: LaunchRequest, lowered: Lowered) -> tuple[LaunchCounts | None, list[str]]:
    """The counts of what the launch's programs touch, and notes on them.

    None if the interpreter cannot follow them. Raises CourseError if the kernel itself fails.
    """
    clusters = lowered.metadata["options"].get("num_ctas", 1)
    if is_gluon(launch.kernel):
        counts: LaunchCounts | str = "what a Gluon kernel touches is not counted"
    elif clusters > 1:
        counts = f"num_ctas={clusters} joins programs"
    else:
        plan = planned(FOLLOWED, launch, lowered)
        counts = _counts(launch, lowered, plan)
    if isinstance(counts, LaunchCounts):
        return counts, [*_cut_off(counts), *notes_of(counts, plan)]
    alone = "The launch could not be followed, so that only its compiled code was judged"
    return None, [f"{alone}: {counts.rstrip('.')}."]


def _counts(launch: LaunchRequest, lowered: Lowered, plan: Plan) -> LaunchCounts | str:
    """The counts of what programs touch, or the reason why the interpreter cannot follow them."""
    try:
        with packed(launch) as packed_launch:
            requests = requests_of(lowered)
            ended = worker.survey.ended(packed_launch, requests, plan, FOLLOWED_S, False)
        if ended.error is None:
            counts = value_of(ended)
            return counts if counts.programs else counts.stopped
    except CourseError as error:  # the tensors are too large to be copied, or the disk is full
        return str(error)
    if isinstance(ended.error, worker.LackingError):
        reason, line = ended.error.args
        return f"{reason}, in line {line}"
    raise ended.error


def _cut_off(counts: LaunchCounts) -> list[str]:
    """A sentence saying that fewer programs were followed than a sample has; none if not so."""
    if counts.programs >= min(counts.all_programs, FOLLOWED.most):
        return []
    limit = f"{FOLLOWED.operations:,} operations of the interpreter"
    if "computed for" in counts.stopped:
        limit = f"{FOLLOWED_S} s of computing"
    followed = f"{counts.programs:,} program{'s were' if counts.programs > 1 else ' was'}"
    return [f"{followed} followed, as many as {limit} allow; the others are taken to be like them."]
