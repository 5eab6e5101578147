"""Plans of least single-sample latency, their bounds, and CP-SAT in a process of its own."""
