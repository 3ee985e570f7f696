"""The recorded training of a small transformer, and how it is read, drawn and made."""

import re
from dataclasses import replace

import pytest
import torch

from course import MODE, CourseError, draw, training
from course.benching import result
from course.benching.training import LABELS, Run, Training
from tools.record import training as recording

RECORD = training()


def trained(**losses):
    runs = {name: Run(tuple(each), 1.25, 3 * 2**30) for name, each in losses.items()}
    return replace(RECORD, runs=runs)


def test_it_prints_the_steps_at_which_the_first_loss_has_come_down():
    printed = str(trained(ours=[4, 3.9, 2, 2.5, 0.5, 0.1], torch=[4, 3, 2, 1, 0.5, 0.3]))
    header, *rows = [re.split("  +", line) for line in printed.split("\n")[:6]]
    assert header[1:] == [LABELS["ours"], LABELS["torch"]]
    assert [row[0] for row in rows[:3]] == [f"loss at step {step}" for step in (1, 3, 5)]
    assert [row[-1] for row in rows] == ["4.000", "2.000", "0.500", "1.2", "3.00"]


def test_json_keeps_it():
    assert Training.from_json(RECORD.to_json()).runs == RECORD.runs


def test_without_a_record_one_is_told_how_to_make_it(monkeypatch, tmp_path):
    monkeypatch.setattr(result, "OBSERVED", tmp_path)
    with pytest.raises(CourseError, match="No training is recorded: `make record`"):
        training()


def test_the_record_is_of_the_model_as_it_is():
    assert [*RECORD.runs] == [*recording.WAYS] == [*LABELS]
    model = (recording.BLOCKS, recording.HEADS, recording.HEAD_DIM, recording.BATCH)
    assert (RECORD.blocks, RECORD.heads, RECORD.head_dim, RECORD.batch) == model
    assert (RECORD.length, RECORD.words) == (recording.LENGTH, recording.WORDS)
    assert {len(run.losses) for run in RECORD.runs.values()} == {recording.STEPS}


def test_the_picture_says_where_the_losses_begin_and_end():
    assert "with our kernels from 4.00 to 2.000" in draw.losses(trained(ours=[4, 2, 1]), 2).alt
    with pytest.raises(CourseError, match="steps is 0, and must be a whole number of 1 or more"):
        draw.losses(RECORD, 0)
    with pytest.raises(CourseError, match=r"takes what training\(\) returns; this is an int"):
        draw.losses(3)


@pytest.mark.skipif(MODE.gpu, reason="needs CPU mode")
def test_all_ways_begin_with_the_same_model_and_texts_and_learn(monkeypatch):
    small = {"HEADS": 2, "HEAD_DIM": 16, "LENGTH": 16, "PERIOD": 4, "STEPS": 12, "UNTIMED": 2}
    # Triton's interpreter computes wrongly in bfloat16.
    there = {"WORDS": 8, "BLOCKS": 1, "DEVICE": "cpu", "DTYPE": torch.float16}
    for name, value in (small | there).items():
        monkeypatch.setattr(recording, name, value)
    runs = {name: recording.train(attend) for name, attend in recording.WAYS.items()}
    first = [run.losses[0] for run in runs.values()]
    assert first == pytest.approx([first[0]] * 3, abs=0.01)
    for run in runs.values():
        assert run.losses == pytest.approx(runs["torch"].losses, abs=0.05)
        assert run.losses[-1] < run.losses[0] - 0.1 and run.ms > 0
    with pytest.raises(CourseError):
        recording.measure()
    assert torch.isfinite(torch.tensor(first)).all()
