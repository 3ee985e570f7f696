"""The control codes of SASS: read from its encoding, and shown beside each instruction."""

import re

import pytest

from course import explore
from course.lowering.sass import ControlCode, nvidia_tool, split_encodings


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (0x000FF00000000800, "[------:R-:W-:-:S08]"),
        (0x000E620000000A00, "[------:R-:W1:-:S01]"),
        (0x002FCA0000000000, "[-1----:R-:W-:Y:S05]"),
        (0x03F00E0000000000, "[012345:R0:W0:Y:S07]"),
    ],
)
def test_a_word_is_read_bit_by_bit(word, text):
    assert str(ControlCode.of(word)) == text


def test_what_uses_a_loaded_value_waits_for_the_barrier_that_the_load_sets(add):
    rows = add.sass.split("\n")
    codes = [(rows[row - 1], code) for row, code in sorted(add.control_codes.items())]
    loaded = {code.set_when_written for text, code in codes if "LDG" in text}
    first_use = next(code for text, code in codes if "FADD" in text)
    assert loaded & set(first_use.waits_for)


def test_a_barrier_is_set_before_anything_waits_for_it(add):
    free = set()
    for _, code in sorted(add.control_codes.items()):
        assert set(code.waits_for) <= free
        free |= {code.set_when_read, code.set_when_written}


def test_every_instruction_has_a_code_and_the_text_is_the_disassemblers(add):
    plain = nvidia_tool("nvdisasm", add.cubin, "-c", "-ndf")
    text, codes = split_encodings(nvidia_tool("nvdisasm", add.cubin, "-c", "-ndf", "-hex"))
    assert text == plain
    instructions = [row for row, line in enumerate(text.split("\n"), 1) if "/*0" in line]
    assert sorted(codes) == instructions


def test_the_pane_of_sass_says_what_its_brackets_mean(add):
    pane = explore(add).panes[-1]
    texts = ["".join(line[1::2]) for line in pane["lines"]]
    assert pane["name"] == "sass" and "Stalls" in pane["legend"]
    load = next(text for text in texts if "LDG" in text)
    assert re.match(r"\[[-\d]{6}:R[-\d]:W\d:[-Y]:S\d\d\] /\*", load)
