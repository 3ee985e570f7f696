"""A launch followed in the interpreter: what it touches and computes, its steps, its races.

Typed are `cost` and `replay` (api.py) and `draw.access` (access_view.py). The session checks and
packs a launch (launch.py) and compiles it too (survey.py); a child runs it (worker.py) under an
observer (observer.py), which counts requests (coalescing.py) and records steps (steps.py). What
crosses between the two is in records.py. `verify` watches with races.py and bounds.py.
"""
