"""Pages that run cells: what stands in for PyTorch and libtriton, and the page in a browser."""
