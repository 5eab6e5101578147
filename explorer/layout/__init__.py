"""Where boxes stand: rows and lines of a graph, its devices, its levels of detail."""
