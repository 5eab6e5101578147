"""The page Sweep."""
