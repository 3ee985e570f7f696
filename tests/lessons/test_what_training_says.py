"""What the notebooks on attention's gradient say is what their cells print."""

import json
import math
import re

import pytest

from course import recorded, training
from tests.support.lesson import Lesson, notebook_of

LESSON = Lesson("Training")
ADDING = ("without adding dQ", "flash_attention_backward")


def printed(code):
    """What the cell of the committed notebook prints that has this code."""
    cells = json.loads(notebook_of("train-with-attention").read_text(encoding="utf-8"))["cells"]
    (cell,) = [each for each in cells if code in "".join(each["source"])]
    return "".join("".join(output["text"]) for output in cell["outputs"])


def test_one_kernel_takes_five_products_and_two_take_seven():
    rows = re.findall(r"(\w+) +([\d,]+) of dots +([\d,]+) bytes", printed("    count(backward)"))
    dots = [int(products.replace(",", "")) for _, products, _ in rows]
    product = 2 * 2 * 256 * 256 * 64  # heads, queries, keys and dimensions of the cell
    assert "Five products and not seven" in LESSON.flat
    assert [count / product for count in dots] == [0, 4, 3, 0, 5, 0]
    d_q = 2 * 256 * 64 * 4
    assert f"8 times the {d_q:,} bytes that dQ has in float32" in LESSON.flat
    assert [added for _, _, added in rows] == ["0"] * 4 + [f"{8 * d_q:,}", "0"]


def test_our_gradients_are_no_further_off_than_twice_those_of_pytorch():
    errors = re.findall(r"by at most (\S+), PyTorch in float16 by (\S+)", printed("off by at most"))
    assert len(errors) == 3
    assert all(float(ours) <= 2 * float(theirs) for ours, theirs in errors)


def test_the_losses_go_down_together_within_a_hundredth():
    losses = re.findall(r"loss (\S+) with our kernels, (\S+) with", printed("train(Attend.apply)"))
    assert "go down together, within a hundredth" in LESSON.flat
    assert all(abs(float(ours) - float(theirs)) < 0.011 for ours, theirs in losses)
    assert float(losses[0][0]) > 2.5 and float(losses[-1][0]) < 0.2
    assert f"gives a loss of log(16) = {math.log(16):.2f}" in LESSON.flat


def test_the_probabilities_would_take_what_is_said():
    assert 32 * 16384 * 16384 * 2 == 16 * 2**30 and "are 16 GiB" in LESSON.flat
    assert 32 * 16384 * 128 * 2 == 128 * 2**20 and "take 128 MiB each" in LESSON.flat


def test_the_speeds_are_those_that_were_recorded():
    speeds = recorded("flash_attention_backward_128_causal")

    def ratios(series, peer="torch, cuDNN"):
        return [speeds.at(peer, 2**k).ms / speeds.at(series, 2**k).ms for k in range(9, 15)]

    gluon, v1, v2 = (ratios(f"flash_attention_backward{end}") for end in ("", "_v1", "_v2"))
    assert "both come to about seven tenths of cuDNN" in LESSON.flat
    assert all(round(ratio, 1) == 0.7 for ratio in v1[2:] + v2[2:])
    assert "are 1.04 to 1.09 times as fast as cuDNN" in LESSON.flat
    assert (round(min(gluon), 2), round(max(gluon), 2)) == (1.04, 1.09)
    assert "you pay with about a third of the speed" in LESSON.flat
    paid = ratios("flash_attention_backward_v1", "flash_attention_backward")
    assert 0.27 < 1 - sum(paid[2:]) / len(paid[2:]) < 0.37


def test_without_additions_it_is_as_fast_as_said():
    def gains(head_dim):
        speeds = recorded(f"flash_attention_backward_{head_dim}")
        pairs = [[speeds.at(name, x) for name in ADDING] for x in speeds.sizes if x >= 1024]
        return [without.speed / adding.speed for without, adding in pairs]

    narrow = {dim: {round(100 * gain - 100) for gain in gains(dim)} for dim in (64, 128)}
    assert "With 128 dimensions the additions cost 4 %, with 64 it is 5 to 8" in LESSON.flat
    assert narrow[128] == {4} and (min(narrow[64]), max(narrow[64])) == (5, 8)
    assert min(gains(256)) > 1.3
    wide = recorded("flash_attention_backward_256")
    without, adding = (wide.at(name, 16384).speed for name in ADDING)
    assert f"it reaches {adding:.0f} TFLOP/s" in LESSON.flat
    assert f"it adds {adding / 160:.1f} TB/s" in LESSON.flat
    assert f"Without them it would reach {without:.0f}" in LESSON.flat


def test_the_model_that_was_recorded_learns_as_said():
    runs = training().runs
    ours, others = runs["ours"].losses, (runs["torch"].losses, runs["formula"].losses)
    assert all(abs(a - b) < 0.1 for losses in others for a, b in zip(ours, losses, strict=True))
    assert "In the first 80 steps the loss comes down to about 3.0" in LESSON.flat
    assert ours[80] == pytest.approx(3.0, abs=0.05) and ours[140] < 0.01
    assert "log(32) = 3.47" in LESSON.flat and round(math.log(training().words), 2) == 3.47
    gib = {name: run.peak_bytes / 2**30 for name, run in runs.items()}
    assert "all tensors take 24 GiB, 21 of them" in LESSON.flat
    assert round(gib["formula"]) == 24 and round(gib["formula"] - gib["torch"]) == 21
    assert "they take 3 GiB, and a step less than a fifth of the time" in LESSON.flat
    assert round(gib["ours"]) == round(gib["torch"]) == 3
    ms = {name: run.ms for name, run in runs.items()}
    assert 5 * ms["ours"] < ms["formula"] and 5 * ms["torch"] < ms["formula"]
    assert "a step is 4% shorter than with PyTorch's" in LESSON.flat
    assert round(1 - ms["ours"] / ms["torch"], 2) == 0.04
    assert "and takes 0.1 GiB more" in LESSON.flat
    assert round(gib["ours"] - gib["torch"], 1) == 0.1


def test_a_call_of_the_gradient_takes_the_cpu_as_long_as_said():
    name = "flash_attention_backward_64_causal_bfloat16"
    assert f'recorded("{name}").launch_us' in LESSON.flat
    launch_us = recorded(name).launch_us
    assert "alone keeps the CPU busy for 200 us, one of cuDNN's for 151" in LESSON.flat
    assert round(launch_us["flash_attention_backward"]) == 200
    assert round(launch_us["torch, cuDNN"]) == 151
