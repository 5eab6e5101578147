"""Bring models in from other programs' formats: one file or folder a format, and what they share."""
