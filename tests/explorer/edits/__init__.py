"""Tests of `explorer.edits.history`."""
