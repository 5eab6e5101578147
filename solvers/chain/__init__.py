"""Pipelines: the best chain split by dynamic programming over ideals."""
