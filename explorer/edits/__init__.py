"""Hand edits of a plan as plain data."""
