"""Tests of `solvers.free.plans`."""
