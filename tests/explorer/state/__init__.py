"""Tests of `explorer.state`."""
