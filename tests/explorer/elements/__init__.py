"""Tests of `explorer.elements`."""
