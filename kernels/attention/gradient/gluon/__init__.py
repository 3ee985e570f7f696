"""The gradient of attention in Gluon, for compute capability 9.0."""
