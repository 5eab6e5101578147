"""Tests of the programs in `benchmarks` that need no server."""
