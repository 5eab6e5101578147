"""Tests of `solvers.exporters`."""
