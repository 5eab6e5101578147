"""Tests of `solvers.latency.solve`."""
