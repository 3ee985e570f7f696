"""The front page's and the README's table of parts says what the lessons say."""

from course.lessons.folders import ROOT
from course.lessons.order import ROUTES, lesson_sources
from docs.site.routes import hours, minutes_of, parts

HEAD = "# %% [markdown]\n# # {} · {}\n#\n# | **Together, an estimate** | {} |\n"


def test_a_part_has_a_row_with_its_notebooks_and_their_minutes(tmp_path):
    for name, title, minutes in (
        ("00-your-first-kernel", "Begin", 20), ("01-vector-add", "Go on", 25),
        ("02-who-holds-what", "Look", 70),
    ):  # fmt: skip
        (tmp_path / f"{name}.py").write_text(HEAD.format(name[:2], title, minutes))
    assert parts("lessons", tmp_path).split("\n")[2:] == [
        "| First kernels | [00 Begin](lessons/00-your-first-kernel.ipynb) 20"
        " · [01 Go on](lessons/01-vector-add.ipynb) 25 | 45 min |",
        "| What became of it | [02 Look](lessons/02-who-holds-what.ipynb) 70 | 1¼ h |",
    ]


def test_the_readme_has_the_table():
    assert parts("notebooks") in (ROOT / "README.md").read_text()


def test_the_ways_through_are_as_long_as_they_are_called():
    minutes = {source.stem[3:]: minutes_of(source) for source in lesson_sources()}
    together = {route: sum(minutes[each] for each in taken) for route, taken in ROUTES.items()}
    assert 180 <= together["an evening"] <= 240
    assert 360 <= together["a long day"] <= 480


def test_minutes_are_said_in_quarters_of_an_hour():
    assert [hours(minutes) for minutes in (5, 44, 60, 100)] == ["5 min", "44 min", "1 h", "1¾ h"]
