"""What the maintainers run: nothing of it is in the wheel, and course/ knows nothing of it."""
