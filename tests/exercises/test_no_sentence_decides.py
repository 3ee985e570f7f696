"""Sentences are for people: what decides is a kind, so that every sentence may be written anew."""

import json
import os
import subprocess
import sys

import pytest

from course.exercises.answers import changed, mistakes, usual_mistake
from course.exercises.registry import NAMES
from tests.exercises.test_exercises import CELLS, PRELUDE
from tests.support.altered_package import ROOT, altered_copy

WHOLE = {
    "first-kernel": ("y minus x", "an index in brackets", "the first element only"),
    "if-becomes-mask": ("one too many", "a loop in place of the block"),
    "export-signature": ("a constexpr as i32",),
    "export-grid": ("nothing", "Python's division"),
    "register-operator": ("d_rstd for d_out",),
    "layout-for-wide-loads": ("warps of another number",),
}
"""Mistakes that are checked whole. Those in Gluon are followed by `simulate` alone otherwise."""
FOLLOWED = ("wrong", "hazard", "deadlock")
COMPILED = ("one wait", "synchronous product", "no product under way")
"""Kinds that only the compiler tells."""


def chosen():
    """For each mistake that is judged here the exercise, and whether it is checked whole."""
    for exercise, names in WHOLE.items():
        yield from ((exercise, each, True) for each in mistakes(exercise) if each.name in names)
    for exercise in NAMES["hopper"][1:6]:
        for each in mistakes(exercise):
            if each.verdict in FOLLOWED and each.kind not in COMPILED:
                yield exercise, each, False


@pytest.fixture(scope="module")
def altered(tmp_path_factory):
    """What an altered copy of the package says: of each chosen mistake verdict, kind, usual
    mistake and reason; and how the doctor would mend a cache that everybody can write to."""
    folder = tmp_path_factory.mktemp("altered")
    assert altered_copy(folder) > 1000
    answers = []
    for number, (exercise, mistake, whole) in enumerate(chosen()):
        row = {"exercise": exercise, "whole": whole, "answer": mistake.answer}
        if isinstance(mistake.answer, dict):
            text, name = CELLS[exercise]
            file = folder / f"answer_{number}.py"
            file.write_text(PRELUDE + changed(text, mistake.answer))
            row["code"] = str(file), name
        answers.append(row)
    (folder / "answers.json").write_text(json.dumps(answers))
    (shared := folder / "shared").mkdir()
    shared.chmod(0o777)
    session = ROOT / "tests" / "support" / "altered_session.py"
    ran = subprocess.run(
        [sys.executable, str(session), str(folder / "answers.json"), str(shared)],
        cwd=folder, env={**os.environ, "COURSE_MODE": "cpu", "PYTHONPATH": str(folder)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_no_verdict_kind_or_usual_mistake_changes_with_the_sentences(altered):
    for (exercise, mistake, _), (verdict, kind, usual, _) in zip(chosen(), altered, strict=False):
        expected = mistake.verdict, mistake.kind, usual_mistake(exercise, mistake.kind)
        assert (verdict, kind, usual) == expected, mistake.name
        assert mistake.name in usual


def test_the_sentences_are_others(altered):
    reasons = "\n".join(reason for *_, reason in altered[:-1])
    assert "oot ylrae" in reasons and "comes too early" not in reasons
    assert "seod ton elipmoc" in reasons and "does not compile" not in reasons


def test_the_doctor_mends_a_shared_cache_by_the_kind_of_error(altered):
    assert altered[-1][0].startswith("chmod 700 ")
