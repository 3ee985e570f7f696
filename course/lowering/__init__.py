"""A kernel through every stage of the compiler: texts, source lines, layouts, machine code.

Typed are `lower` (api.py), `explore` (explorer.py), `configs` and `compiles_for`
(configurations.py). arguments.py packs a launch, a child compiles it (worker.py), and result.py is
what comes back. locations.py reads the source lines from the text of each stage, source_map.py
turns them into what became of a line.
"""
