"""The versions that the course pins, and is tested with whole. tests/setup/test_pins.py compares
them with pyproject.toml."""

TORCH = "2.15.0"
TRITON = "3.9.0"
