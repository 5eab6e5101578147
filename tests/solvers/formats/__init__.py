"""Tests of `solvers.formats`."""
