"""Which engine runs when, and what it starts from."""
