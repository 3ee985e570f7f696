"""`profile`: which kernel of a whole program costs most time above the least, and why."""
