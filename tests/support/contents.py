"""What a device can hold, from the definitions: every set of blocks, its load, and whether it is convex."""

import itertools

import numpy as np
from hypothesis import strategies as st

from solvers.free.diagram import Arcs
from solvers.model.graph import DnnGraph
from solvers.problem.contraction import Contraction

SOME_TIMES = st.integers(0, 40).map(lambda quarters: quarters / 4)


def load_of(contraction: Contraction, contents: np.ndarray) -> float:
    """Return the load of an accelerator in ms, from its definition."""
    cut = (h.weight_ms for h in contraction.hyperedges if 0 < contents[list(h.blocks)].sum() < len(h.blocks))
    return float(contraction.accelerator_ms[contents].sum()) + sum(cut)


def all_contents(contraction: Contraction) -> list[np.ndarray]:
    """Return every set of blocks."""
    return [np.array(bits, bool) for bits in itertools.product((False, True), repeat=contraction.num_blocks)]


def length_in(arcs: Arcs, contents: np.ndarray) -> float:
    """Return the length in ms of the path of a set through a diagram, which says its load."""
    node, length = 0, 0.0
    for b in arcs.order:
        x = int(contents[b])
        length += arcs.length[node, x]
        node = arcs.target[node, x]
    return length


def is_convex(graph: DnnGraph, contraction: Contraction, contents: np.ndarray) -> bool:
    """Whether no forward path leaves a set of blocks and comes back, by following paths."""
    inside = {v for b in np.flatnonzero(contents) for v in contraction.members[b]}
    left: set[int] = set()
    for v in graph.topological_order:
        if graph.node_by_id[v].is_backward:
            continue
        readers = [u for u in graph.inputs[v] if not graph.node_by_id[u].is_backward]
        has_left = any(u in left for u in readers)
        if v in inside and has_left:
            return False
        if v not in inside and (has_left or any(u in inside for u in readers)):
            left.add(v)
    return True
