"""Everything on one accelerator: load = sum_v p_v, no transfers. What a machine with one device would do.

The plan exists whether or not the graph fits: memory, and nodes that run on CPUs only, are for the evaluator to see.
"""

from solvers.model.graph import DnnGraph
from solvers.model.split import Split


def single_accelerator_split(graph: DnnGraph, accelerator: int = 0) -> Split:
    """Return the split with all nodes on one accelerator.

    >>> from solvers.model.graph import Node
    >>> single_accelerator_split(DnnGraph((Node(1, 2.0, 9.0), Node(2, 3.0, 9.0)), ())).accelerators
    (frozenset({1, 2}),)
    """
    return Split((*(frozenset[int]() for _ in range(accelerator)), frozenset(graph.node_by_id)))
