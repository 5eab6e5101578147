"""The names of what the picture may ask for of a plan."""

OPERATIONS = ("move", "pin", "unpin", "together", "undo", "redo", "repair", "resolve", "reset")
