"""What the lessons arrive at: one operation a file, each with its ladder of versions.

Needs Triton and PyTorch only. `python -m kernels.softmax` verifies the versions of one operation,
and times them on a GPU.
"""
