"""The front page's table of routes says what the lessons say."""

from docs.site.routes import lesson_of, table

FIRST = """# 00 · Start

| section | about minutes |
|---|---|
| Begin | 20 |
| Go on | 25 |
| Sitting 2 | 5 |
| Stretch exercises | 10 |
| **All, an estimate** | 60 |

| rows | 7 |
|---|---|
| not a section | 99 |

## Begin

*Routes: three hours, one day, all*

## Go on

*Routes: one day, all*

## Sitting 2

## On your own
"""
OLD = "# 07 · Old\n\n| section | minutes |\n|---|---|\n| Only | 45 |\n\n## Only\n"


def test_a_route_takes_the_minutes_of_its_sections():
    lesson = lesson_of(FIRST, "lessons/00.ipynb")
    assert lesson.title == "00 · Start"
    minutes = [lesson.minutes_of(route) for route in ("three hours", "one day", "all")]
    assert minutes == [20, 45, 60]


def test_the_table_has_a_row_per_lesson_and_the_sum():
    lessons = [lesson_of(FIRST, "a.ipynb"), lesson_of(OLD, "b.ipynb")]
    assert table(lessons).split("\n") == [
        "| lesson | three hours | one day | all |",
        "| --- | --: | --: | --: |",
        "| [00 · Start](a.ipynb) | 20 | 45 | 60 |",
        "| [07 · Old](b.ipynb) |  |  | 45 |",
        "| together | 20 min | 45 min | 1¾ h |",
    ]


def test_a_route_that_no_lesson_speaks_of_has_no_column():
    assert table([lesson_of(OLD, "b.ipynb")]).startswith("| lesson | all |\n")
