"""Why is a kernel slow? `diagnose`: rules over what was counted and compiled, by estimated gain."""
