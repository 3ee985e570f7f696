"""The error that every part of the course raises for a person to read."""


class CourseError(Exception):
    """Something a person can mend.

    The message is one sentence that says what to do; the command line prints it alone. Code that
    decides by what went wrong reads `kind`, and never the sentence.
    """

    kind: str
    """A short name that stays the same however the sentence is written; empty where nobody asks."""

    def __init__(self, *args: object, kind: str = "") -> None:
        super().__init__(*args)
        self.kind = kind
