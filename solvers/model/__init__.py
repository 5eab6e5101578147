"""The problem, a plan for it, and what the plan costs: frozen records and the independent evaluator."""
