"""The lessons themselves: deriving the notebooks from their sources, the reader's own copies, cells run apart."""
