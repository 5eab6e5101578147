"""Tests of `explorer.plan`."""
