"""A Gluon kernel followed without a GPU: barriers, copies, waits, partitions taking turns.

Typed are `simulate` (api.py) and `on_hopper` (hopper.py). A program (program.py) runs as Python
with its module's names replaced (machine.py): by names.py and what that lists, *_names.py, in
partitions that take turns (partitions.py). What goes wrong is found where it happens: a wait that
never ends in barriers.py and partitions.py, a copy or product that nobody has waited for in
shared_memory.py and product_names.py, a missing fence in proxies.py.
"""
