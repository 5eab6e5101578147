"""Tests of `solvers.problem`."""
