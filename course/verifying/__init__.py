"""Right? A function against its reference in float64, on guarded memory."""
