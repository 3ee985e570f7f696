"""Code that may crash, hang or fill the memory runs in a process of its own; how it ended is a value."""
