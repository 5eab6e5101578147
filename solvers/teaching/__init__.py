"""Small, readable implementations of the methods that yield every step they take, for lessons; plain Python only."""
