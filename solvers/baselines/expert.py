"""A split made by hand, such as the paper's human experts': judged as it is, nothing improved.

Backward nodes that it does not list follow their colocation class.
"""

from solvers.model.graph import DnnGraph
from solvers.model.split import Split, complete_split
from solvers.problem.solving import MethodError


def expert_split(graph: DnnGraph, split: Split | None) -> Split:
    """Return the completed split; MethodError without one, SplitError where it does not belong to the graph."""
    if split is None:
        raise MethodError("Method expert judges a split made by hand; give it one (--expert SPLIT.json, or start=...).")
    return complete_split(graph, split)
