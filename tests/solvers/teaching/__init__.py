"""Tests of `solvers.teaching`."""
