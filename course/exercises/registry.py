"""Every exercise by its name. Finding one loads the exercises of its own topic and no others."""

import difflib
import importlib
import re

from course.errors import CourseError

from .kinds import CodeExercise, DiagnosisExercise, Question, RegistrationExercise

AnyExercise = CodeExercise | DiagnosisExercise | RegistrationExercise | Question

NAMES = {
    "start": (
        "first-kernel", "last-program", "if-becomes-mask", "mend-the-maximum", "mend-the-total",
        "mend-the-end",
    ),
    "vector_add": (
        "fill-a-vector", "scale-and-shift", "reversed-vector", "every-other-backwards",
        "very-long-vector", "count-bytes", "least-time", "what-takes-time", "which-fall",
        "gate-in-one-pass",
    ),
    "two_dimensions": (
        "every-pair", "any-view", "stack-of-transposes", "count-sectors", "descriptor-limits",
        "transpose-by-descriptors", "bias-and-gelu", "find-the-race",
    ),
    "compilation_stages": (
        "which-stage", "elements-per-thread", "wide-loads", "slow-rows-and-factors",
        "slow-pages", "slow-shares-of-a-sum", "slow-long-rows",
    ),
    "softmax": (
        "row-sums", "row-maxima", "log-softmax", "merge-two-halves", "online-bytes", "narrow-rows",
        "any-number-of-rows", "tuned-in-place", "column-sums", "softmax-backwards",
    ),
    "tensor_cores": (
        "product-loop", "product-of-any-size", "eight-by-eight", "tiles-in-order",
        "stages-that-fit", "linear-by-descriptors", "persistent-product", "layer-in-one-launch",
    ),
    "flash_attention": (
        "one-tile", "attention-loop", "scale-in-the-exponent", "log-sum-exp", "tiles-left",
        "causal-attention", "grouped-heads", "attention-registers", "sliding-window",
        "bias-by-distance", "texts-of-any-length", "split-the-keys", "any-strides", "even-flags",
        "one-matrix", "divided-loop",
    ),
    "ahead_of_time": (
        "export-signature", "export-grid", "where-the-scale-went", "second-variant",
    ),
    "when_it_is_slow": (
        "slow-gate", "slow-product", "twice-as-fast", "well-tuned-and-slow",
        "rows-that-are-not-there", "how-many-errors", "range-that-never-shrinks", "uneven-rows",
        "walk-along-k", "long-sum", "long-cosines", "crowded-counters", "digits-nobody-asked-for",
        "documents-in-pieces", "compiler-or-you",
    ),
    "own_operation": (
        "rms-norm-forward", "gradient-of-x", "gradient-of-weight", "register-operator",
        "fused-cross-entropy",
    ),
    "hopper": (
        "layout-for-wide-loads", "phase-of-a-round", "consumer-of-a-ring", "product-and-waits",
        "product-under-way", "two-consumers", "scores-ahead", "order-of-tiles",
    ),
    "attention_gradient": (
        "gradient-of-values", "gradient-of-keys", "gradient-of-queries", "gradient-of-a-group",
    ),
}  # fmt: skip
"""topic -> its exercises. The topic is the module with the exercises, in course/exercises/lessons,
and with their usual mistakes, in course/exercises/answers. Which notebook has an exercise, and
where, is the notebook's business."""

TOPICS = {name: topic for topic, names in NAMES.items() for name in names}


def exercises() -> dict[str, AnyExercise]:
    """All exercises of the course by name, topic by topic."""
    return {name: each for topic in NAMES for name, each in topic_exercises(topic).items()}


def topic_exercises(topic: str) -> dict[str, AnyExercise]:
    """The exercises of a topic, as "vector_add", by name."""
    module = importlib.import_module(f"course.exercises.lessons.{topic}")
    return {exercise.name: exercise for exercise in module.EXERCISES}


def find(name: str) -> AnyExercise:
    """The exercise of this name, as "first-kernel". Raises CourseError for an unknown one."""
    name = str(name).strip()
    if name in TOPICS:
        return topic_exercises(TOPICS[name])[name]
    if re.fullmatch(r"\d+\.\d+", name):
        raise CourseError(
            f'There is no exercise {name!r}: exercises have names now, as "first-kernel". A '
            "notebook that checks a number is of an earlier version of the course."
        )
    text = f"There is no exercise {name!r}"
    if close := difflib.get_close_matches(name, TOPICS, n=3):
        raise CourseError(f"{text}. Do you mean {' or '.join(close)}?")
    raise CourseError(f'{text}: its cell in a lesson names each, as check("first-kernel", …).')


def code_exercise(name: str) -> CodeExercise:
    """The exercise of this name, which asks for code, or the part of it that does."""
    exercise = find(name)
    code = exercise.mended if isinstance(exercise, DiagnosisExercise) else exercise
    assert isinstance(code, CodeExercise)
    return code
