"""Tests of `solvers.cli.main`."""
