"""Tests that start real processes: solvers, workers, servers."""
