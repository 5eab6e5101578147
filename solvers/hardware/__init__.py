"""Real devices: their figures and sources, times of nodes on them, lists and prices of them."""
