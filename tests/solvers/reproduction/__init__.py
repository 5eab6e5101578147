"""Tests of `solvers.reproduction.tables`."""
