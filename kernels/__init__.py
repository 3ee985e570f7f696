"""What the lessons arrive at: one operation a file, each with its ladder of versions.

Needs Triton and PyTorch only.
"""
