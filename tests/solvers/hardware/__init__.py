"""Tests of `solvers.hardware.devices`."""
