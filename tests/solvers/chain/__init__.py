"""Tests of `solvers.chain`."""
