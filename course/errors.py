"""The error every part of the course raises for a person to read: one sentence that says what to do."""


class CourseError(Exception):
    """Something a person can mend. The message is one sentence with what to do; the command line prints it alone."""
