"""Tests of `solvers.schedule.simulate`."""
