"""Convex and free splits: bounds by cuts and column generation, and plans (`solvers.free.plans`) beside them."""
