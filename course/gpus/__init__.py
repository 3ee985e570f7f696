"""GPUs: the limits of each architecture, the published peaks of each product, and what was measured."""
