"""A launch followed in the interpreter: replay, cost, the sectors of each access, races."""
