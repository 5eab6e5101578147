"""Benchmarks: `make benchmark` times the engine, `python -m benchmarks.compare_dp_ip` compares two of its methods."""
