"""Tests of `solvers.sweep.run`."""
