"""Plans in the formats of other programs, one file per format; nothing here draws."""
