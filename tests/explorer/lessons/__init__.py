"""Tests of `explorer.lessons`."""
