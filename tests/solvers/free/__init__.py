"""Tests of `solvers.free`."""
