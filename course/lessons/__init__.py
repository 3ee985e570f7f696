"""The lessons: from sources to notebooks, the learner's copies, and the lab."""
