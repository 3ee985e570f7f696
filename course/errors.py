"""The error that every part of the course raises for a person to read."""


class CourseError(Exception):
    """Something a person can mend.

    The message is one sentence that says what to do; the command line prints it alone.
    """
