"""Is it right, and how fast is it? Results are dataclasses that print themselves; pictures are display's."""
