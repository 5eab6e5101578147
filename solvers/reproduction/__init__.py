"""The paper's tables, run on its released workloads."""
