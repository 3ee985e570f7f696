"""What a launch costs, by experiment: one thing is taken out of a kernel, which is timed again."""
