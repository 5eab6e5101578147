"""Tests of `solvers.analysis`."""
