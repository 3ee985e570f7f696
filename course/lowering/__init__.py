"""A kernel through every stage of the compiler: texts, source lines, layouts, machine code."""
