"""Tests of `solvers.baselines`."""
