"""Fast? A function beside its peers on a GPU, and the speeds recorded earlier."""
