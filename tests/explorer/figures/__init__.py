"""Tests of `explorer.figures`."""
