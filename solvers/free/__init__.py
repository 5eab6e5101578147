"""Convex and free splits: plans by annealing, bounds by cuts and column generation."""
