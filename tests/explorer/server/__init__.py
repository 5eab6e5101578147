"""Tests of `explorer.server`."""
