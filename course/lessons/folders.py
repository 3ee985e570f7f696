"""Where the lessons are: their sources, the notebooks made of them, and a learner's copies."""

from course.places import content, home

ROOT = content()
SOLUTIONS = ROOT / "solutions"
NOTEBOOKS = ROOT / "notebooks"
WORK = home() / "work"
"""The learner's copies of the lessons."""
ORIGINS = ".origins.json"
"""In a work folder: for each lesson, the hash of the text it was copied from."""
