"""Layers for the nodes that have none, so that a picture of layers is not full of single nodes.

Where most nodes have a layer, the others join a neighbour's: that of their latest input, or, where no input has one,
that of their first reader. Joining the latest of several inputs closes no circle: another way from that layer to the
node would pass through a later one. Where layers were found rather than named, much may lie before the first and
after the last of them: those two ends become boxes of their own. Both are done for either pass alone; what is the
input's end of the forward pass is its twin's in the backward pass, which comes there last.
"""

from collections.abc import Callable, Mapping, Sequence

from solvers.model.graph import DnnGraph

INPUT, OUTPUT = "input", "output"
"""Titles of what lies before the first layer and after the last."""

Rank = Callable[[Mapping[int, str]], Mapping[int, int]]
"""Takes the layers of some nodes; returns for each node where its group stands in the flow of the data."""


def with_neighbours(graph: DnnGraph, layer_of: Mapping[int, str], rank: Rank) -> dict[int, str]:
    """Return the layer of each node: its own, or that of a neighbour in its pass; by node id.

    Nodes that nothing of their pass joins to a layer stay without one.
    """
    ranks = rank(layer_of)
    full = dict(layer_of)
    for is_backward in (False, True):
        order = _order(graph, is_backward)
        _join(graph.inputs, order, full, lambda u: ranks[u])
        _join(graph.readers, order[::-1], full, lambda u: -ranks[u])
    return full


def with_ends(graph: DnnGraph, layer_of: Mapping[int, str], rank: Rank) -> dict[int, str]:
    """Return the layer of each node as `with_neighbours` does, but with the ends of the graph on their own."""
    full = dict(layer_of)
    for is_backward in (False, True):
        order = _order(graph, is_backward)
        first, last = (OUTPUT, INPUT) if is_backward else (INPUT, OUTPUT)
        after = _reached(graph.inputs, order, layer_of)
        before = _reached(graph.readers, order[::-1], layer_of)
        # What neither follows nor leads to a layer lies beside them; the output's end is the likelier place for it.
        ends = ((last, before), (first, after))
        for title, reached in ends if last == OUTPUT else ends[::-1]:
            full.update({v: title for v in order if v not in full and v not in reached})
    return with_neighbours(graph, full, rank)


def _order(graph: DnnGraph, is_backward: bool) -> list[int]:
    return [v for v in graph.topological_order if graph.node_by_id[v].is_backward == is_backward]


def _reached(sources: Mapping[int, Sequence[int]], order: Sequence[int], layer_of: Mapping[int, str]) -> set[int]:
    """Return the nodes in `order` that have a layer or come after one that has, along `sources`."""
    members, reached = set(order), set[int]()
    for v in order:
        if v in layer_of or any(u in reached for u in sources[v] if u in members):
            reached.add(v)
    return reached


def _join(
    sources: Mapping[int, Sequence[int]], order: Sequence[int], full: dict[int, str], rank: Callable[[int], int]
) -> None:
    """Give each node without a layer that of the one of its sources which `rank` puts last."""
    members = set(order)
    reached = dict[int, int]()
    for v in order:
        if v in full:
            reached.setdefault(v, rank(v))
            continue
        known = [u for u in sources[v] if u in members and u in reached]
        if known:
            nearest = max(known, key=reached.__getitem__)
            full[v], reached[v] = full[nearest], reached[nearest]
