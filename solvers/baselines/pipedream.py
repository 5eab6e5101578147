"""PipeDream's planner as the paper compares with it: a DP on a line, to which the graph is contracted first.

PipeDream (Narayanan et al., SOSP 2019) plans for a sequence of layers. For other graphs Tarnawski et al. (NeurIPS 2020,
section 6) contract the biconnected components of the graph of classes, without directions: of every component the
classes that write some tensor of the component become one. Where a branch opens and closes again, it is so kept on one
device; the rest is nearly a line, and the DP of `solvers.baselines.linearised` splits it.

Components are sought in the forward graph; backward nodes follow their classes. With the edges between the two passes
and within the backward one in it, a training graph would be little more than one component and the baseline useless.

Left out are edges that PipeDream's profiles do not show: those of nodes that take no time and are inputs of the network
or write next to nothing, less than `NEGLIGIBLE_OUTPUT` of the median tensor. An attention mask that every layer
reads would otherwise make one component of all layers.
"""

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

import networkx as nx

from solvers.baselines.linearised import linearised_splits
from solvers.model.graph import DnnGraph
from solvers.model.split import Split, forward_edges
from solvers.problem.solving import Problem, Reporter

NEGLIGIBLE_OUTPUT = 0.1


def pipedream_splits(problem: Problem, reporter: Reporter) -> Iterator[Split]:
    """Yield the best chains along lines of the contracted graph; memory and CPUs are respected."""
    tied = with_components_tied(problem.graph)
    if reporter.seconds_left != 0:
        yield from linearised_splits(tied, problem, reporter)


def with_components_tied(graph: DnnGraph) -> DnnGraph:
    """Return the graph with a colocation class for each part that PipeDream's planner keeps together.

    >>> from solvers.model.graph import Edge, Node
    >>> nodes = tuple(Node(v, 1.0, 1.0, transfer_ms=1.0) for v in range(1, 6))
    >>> diamond = DnnGraph(nodes, (Edge(1, 2), Edge(1, 3), Edge(2, 4), Edge(3, 4), Edge(4, 5)))
    >>> with_components_tied(diamond).colocation_members
    {0: (1, 2, 3), 1: (4,), 2: (5,)}
    """
    # Every node stands for its class from here on: the first node of the class.
    first = {ids[0]: ids for ids in graph.colocation_members.values()}
    class_of = {v: head for head, ids in first.items() for v in ids}
    for node in graph.nodes:
        class_of.setdefault(node.id, node.id)

    components: nx.Graph[int] = nx.Graph()
    writers: dict[frozenset[int], set[int]] = {}
    ignored = _ignored(graph)
    for u, v in forward_edges(graph):
        ends = frozenset((class_of[u], class_of[v]))
        if u not in ignored and len(ends) == 2:
            components.add_edge(*ends)
            writers.setdefault(ends, set()).add(class_of[u])
    tied: nx.utils.UnionFind[int] = nx.utils.UnionFind(class_of.values())
    for edges in nx.biconnected_component_edges(components):
        tied.union(*set().union(*(writers[frozenset(edge)] for edge in edges)))
    number: dict[int, int] = {}
    for node in graph.nodes:
        number.setdefault(tied[class_of[node.id]], len(number))
    nodes = (replace(node, colocation_class=number[tied[class_of[node.id]]]) for node in graph.nodes)
    return DnnGraph(tuple(nodes), graph.edges, graph.name)


def _ignored(graph: DnnGraph) -> set[int]:
    """Return the nodes that take no time and are inputs of the network or write next to nothing."""
    outputs = [tensor.transfer_ms for tensor in graph.tensors if tensor.transfer_ms > 0]
    negligible = NEGLIGIBLE_OUTPUT * median(outputs) if outputs else 0.0
    return {
        node.id
        for node in graph.nodes
        if node.accelerator_ms == 0 and node.cpu_ms == 0 and (not graph.inputs[node.id] or node.output_ms < negligible)
    }
