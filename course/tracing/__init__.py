"""The interpreter watched: which addresses each program loads and stores."""
