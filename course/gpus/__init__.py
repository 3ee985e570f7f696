"""GPUs: the limits of each architecture, the published peaks of products, and what was measured."""
