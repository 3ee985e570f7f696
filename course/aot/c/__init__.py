"""The C of an exported kernel, as text."""
