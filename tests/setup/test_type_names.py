"""The article before what a sentence names."""

import pytest

from course.type_names import kind_of, with_article


@pytest.mark.parametrize(
    ("value", "named"), [(1, "an int"), ("x", "a str"), (None, "a NoneType"), ([], "a list")]
)
def test_a_type_has_its_article(value, named):
    assert kind_of(value) == named


def test_a_number_has_its_article():
    ways = [with_article(f"{count}-way").split()[0] for count in (2, 4, 8, 11, 16, 18, 32, 80, 110)]
    assert ways == ["a", "a", "an", "an", "a", "an", "a", "an", "a"]
