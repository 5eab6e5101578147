"""Tests of `solvers.model`."""
