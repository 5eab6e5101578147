"""Search for better convex and free plans: annealing, from prices, from the best known, and from pairs of plans."""
