"""Tests of `explorer.layout.layered`."""
