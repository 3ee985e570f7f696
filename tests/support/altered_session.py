"""Judge answers in an altered copy of the package: python altered_session.py ANSWERS SHARED."""

import importlib.util
import json
import os
import sys
from types import SimpleNamespace

from course import check, doctor
from course.exercises.answers import usual_mistake
from course.exercises.judges.simulated import simulated
from course.exercises.kinds import GluonExercise
from course.exercises.registry import find


def loaded(file, name):
    spec = importlib.util.spec_from_file_location(f"answer_{abs(hash(file))}", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def judged(exercise, answer, whole):
    """What `check` says, or for an answer in Gluon what `simulate` says, which takes less time."""
    if whole or not isinstance(find(exercise), GluonExercise):
        return check(exercise, answer)
    return SimpleNamespace(**simulated(find(exercise), answer)._asdict())


with open(sys.argv[1]) as stream:
    answers = json.load(stream)
for each in answers:
    answer = loaded(*each["code"]) if "code" in each else each["answer"]
    checked = judged(each["exercise"], answer, each["whole"])
    usual = usual_mistake(each["exercise"], checked.kind)
    print(json.dumps([checked.verdict, checked.kind, usual, checked.reason]))
os.environ["COURSE_CACHE"] = sys.argv[2]
print(json.dumps([finding.mend for finding in doctor.cache()]))
