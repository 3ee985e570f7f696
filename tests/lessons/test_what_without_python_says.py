"""What "Without Python" says of exported attention is so: loads, stack, pipeline, what v3 costs."""

import re

import pytest

from course.benching.result import recorded
from course.lowering.api import lower_file
from kernels.attention.settings import Settings, settings_for
from tests.support.lesson import Lesson

LESSON = Lesson("Without Python")
KERNEL = "kernels/attention/export.py"


@pytest.fixture(scope="module")
def signatures():
    """The lesson's three signatures of _fwd_kernel, by their names, as lists of parts."""
    names = {}
    for line in "\n".join(LESSON.code).splitlines():
        if re.match(r"(first_try|pointers|constants|second_try|signature) ?[+,=]", line):
            exec(line, names)
    keys = {"first": "first_try", "second": "second_try", "last": "signature"}
    return {key: [part.strip() for part in names[name].split(",")] for key, name in keys.items()}


def lowered(signature, num_warps):
    return lower_file(KERNEL, "_fwd_kernel", signature, "sm_90", num_warps=num_warps, num_stages=3)


def test_the_signature_that_is_one_word_short_pipelines_nothing(signatures):
    """And with that word q and three stages of k and v lie in shared memory, as the lesson adds."""
    pairs = zip(signatures["second"], signatures["last"], strict=True)
    assert [pair for pair in pairs if pair[0] != pair[1]] == [("i32", "i32:16")]
    second, last = (lowered(signatures[name], 8) for name in ("second", "last"))
    assert second.counts["ptx"]["asynchronous copies"] == 0
    assert second.counts["ptx"]["vectorized global loads"] == 0
    assert last.counts["ptx"]["asynchronous copies"] > 0
    counts = last.counts["ptx"]
    assert counts["global loads"] == counts["vectorized global loads"] == 4
    tile, stage = 128 * 64 * 2, 2 * 64 * 64 * 2
    assert (tile, stage // 2) == (16_384, 8_192)
    assert last.resources.shared_bytes == tile + 3 * stage == 65_536
    assert last.resources.spill_bytes == second.resources.spill_bytes == 0
    assert "16,384 + 3 x 16,384 = 65,536" in LESSON.flat


def test_the_first_attempt_spills_and_holds_one_tile_of_keys(signatures):
    first = lowered(signatures["first"], 4)
    assert first.resources.spill_bytes > 0 and first.resources.registers == 255
    assert first.counts["ptx"]["asynchronous copies"] == 0
    assert first.resources.shared_bytes == 2 * 16_384


def test_the_last_attempt_has_the_settings_of_v3(signatures):
    assert settings_for(64, 227) == Settings(128, 64, 8, 3)
    assert signatures["last"][-2:] == ["128", "64"]


def test_v3_takes_as_much_longer_than_v5_as_the_lesson_says():
    result = recorded("flash_attention_128")
    v3, v5 = (
        {t.x: t.ms for t in result.of(name)} for name in ("flash_attention_v3", "flash_attention")
    )
    ratios = [v3[length] / v5[length] for length in sorted(v5)]
    assert f"between {min(ratios):.2f} and {max(ratios):.2f} times as long" in LESSON.flat
    assert ratios[-1] == min(ratios) and ratios[0] == max(ratios)
