"""Tests of `explorer.picture`."""
