"""The recorded power of attention with large heads, and how it is read."""

import pytest

from course import MODE, CourseError, attention_power
from course.benching import result
from course.benching.profiles import AttentionPower, Load
from course.gpus.recorded import Machine
from kernels.attention.gluon.settings import LARGE_HEADS, hopper_settings
from tools.record import attention_power as recording


def power_of(**loads):
    machine = Machine("a GPU", "1", "2", "3", "2026-01-01")
    return AttentionPower(
        machine=machine, source_hash="", head_dim=256, length=512, heads=1, loads=loads
    )


def test_it_prints_a_column_for_each_way():
    load = Load(
        cycles=1_234, instructions=5_678_901, tensor_percent=84.4, ms=1.5, mhz=1548, watts=686
    )
    label, cycles, *_, watts, source = str(power_of(ours=load, theirs=load)).split("\n")
    assert label.split() == ["ours", "theirs"]
    assert cycles.split()[-2:] == ["1,234", "1,234"]
    assert watts.split()[-1] == "686"
    assert "a GPU" in source


def test_json_keeps_it():
    power = power_of(ours=Load(1, 2, 3.0, 4.0, 5.0, 6.0))
    assert AttentionPower.from_json(power.to_json()).loads == power.loads


def test_samples_are_averaged_and_a_line_that_was_cut_off_is_left_out():
    assert recording.samples("1500, 690.5\n1400, 700.5\n15") == (1450, 695.5)


def test_a_card_without_a_sensor_is_told_of():
    with pytest.raises(CourseError, match="neither clock nor power"):
        recording.samples("[N/A], [N/A]\n")


@pytest.mark.skipif(MODE.gpu, reason="needs CPU mode")
def test_without_a_gpu_nothing_is_recorded():
    with pytest.raises(CourseError):
        recording.measure()


def test_without_a_record_one_is_told_how_to_make_it(monkeypatch, tmp_path):
    monkeypatch.setattr(result, "OBSERVED", tmp_path)
    with pytest.raises(CourseError, match="No attention_power is recorded: `make record`"):
        attention_power()


def test_the_record_is_of_the_kernel_and_the_settings_as_they_are():
    record = attention_power()
    assert [*record.loads] == [*recording.WAYS]
    size = (record.head_dim, record.length, record.heads)
    assert size == (recording.HEAD_DIM, recording.LENGTH, recording.BATCH * recording.HEADS)
    length = record.length
    assert hopper_settings(record.head_dim, False, length, length) == LARGE_HEADS
