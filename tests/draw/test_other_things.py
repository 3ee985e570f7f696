"""A picture of something else than it shows is refused in a sentence, never with a traceback."""

import pytest

from course import attention_timeline, draw, gpu_report
from course.errors import CourseError

OF_SPEEDS = r'what `bench` or `recorded` returned, as recorded\("softmax"\); this is a str\.'


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: draw.speeds("softmax"), f"draw.speeds takes {OF_SPEEDS}"),
        (lambda: draw.ladder("matmul", {}), f"draw.ladder takes {OF_SPEEDS}"),
        (lambda: draw.machine("H200"), r"takes what gpu_facts\(\) returned; this is a str"),
        (lambda: draw.timeline(attention_timeline()), r"takes one of `attention_timeline\(\)`"),
        (lambda: draw.rescale([1, 2], [[1], [2]], 0), "block is 0 for 2 keys"),
        (lambda: draw.broadcast([1], [2], "x"), "takes a whole number as stride; it is 'x'"),
        (lambda: gpu_report("odd"), "there is 'out of bounds', 'out of bounds, checked'"),
    ],
    ids=["speeds", "ladder", "machine", "timeline", "rescale", "broadcast", "report"],
)
def test_it_is_refused(make, says):
    with pytest.raises(CourseError, match=says):
        make()
