"""Tests of `solvers.milp.highs`."""
