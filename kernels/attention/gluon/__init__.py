"""Attention for compute capability 9.0 in Gluon, where the program says which warps do what."""
