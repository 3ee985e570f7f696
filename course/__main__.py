"""`python -m course` is `course`."""

from course.cli import main

main()
