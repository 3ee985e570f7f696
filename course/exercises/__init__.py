"""The exercises: what is right, what usual mistakes look like, and the checks that tell."""
