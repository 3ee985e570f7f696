"""A room of learners on one host: the rehearsal, and what the board of the leader shows."""
