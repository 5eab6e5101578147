"""Tests of `explorer.words`."""
