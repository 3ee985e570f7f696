"""Small programs of models and layers of published packages, which profile is tried on.

The packages are fetched at their pinned versions, and never committed. From the project's root:

    python -m tests.profiling.programs [NAME …]
"""
