"""Lessons that run in a page: what is packed for it, and what stands in there for compiled code."""
