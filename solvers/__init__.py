"""Optimal placement of neural-network graphs over devices: model, evaluator, solvers, schedules.

The library draws nothing and knows nothing of the app in `explorer`.
"""
