"""Draws what the others return. Computes nothing about kernels."""
