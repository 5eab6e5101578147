"""Tests of `solvers.importers`."""
