"""The page Learn: lessons on the real engine, their format as data, and the figures they step through."""
