"""All that is private in Triton and used here all the same, in one place. Tried with Triton 3.6.0, 3.7.1, 3.8.0 and 3.9.0."""
