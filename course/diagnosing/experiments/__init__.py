"""What a launch costs, by experiment: one thing is taken out of a kernel, which is timed again.

ptx_variants.py says what can be taken out of a line: edits.py how, read_ptx.py what must stay.
whole.py changes the whole kernel, parameter_changes.py a parameter. run.py has all assembled
(assembly.py) and timed by a child (worker.py); blame.py says which cause an experiment is about,
clocks.py when each program ran, and result.py what came of it all.
"""
