"""Tests of `solvers.methods`."""
