"""Diagrams of what one device can hold know every set and its load."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.free import patterns
from solvers.free.patterns import Paths, contents_diagram
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Family
from solvers.problem.contraction import Contraction, contract
from tests.support.contents import all_contents, is_convex, length_in, load_of
from tests.support.examples import examples
from tests.support.graphs import chain, random_dag, small_graphs


def path_length(contraction: Contraction, contents: np.ndarray, max_width: int) -> float:
    return length_in(contents_diagram(contraction, max_width).arcs, contents)


@given(small_graphs(max_nodes=6))
@examples(40)
def test_the_path_of_a_set_is_as_long_as_its_load(instance: tuple[DnnGraph, Deployment]) -> None:
    contraction = contract(instance[0], Family.FREE, instance[1])
    for contents in all_contents(contraction):
        assert path_length(contraction, contents, 4096) == load_of(contraction, contents)


@given(small_graphs(max_nodes=6), st.integers(1, 3))
@examples(20)
def test_a_narrow_diagram_never_overstates_a_load(instance: tuple[DnnGraph, Deployment], width: int) -> None:
    contraction = contract(instance[0], Family.FREE, instance[1])
    assert contents_diagram(contraction, width).arcs.width <= width
    for contents in all_contents(contraction):
        assert path_length(contraction, contents, width) <= load_of(contraction, contents)


@given(small_graphs(max_nodes=6, backward=True), st.sampled_from([2, 3, 4096]))
@examples(60)
def test_only_convex_sets_are_paths_of_finite_length_where_it_is_asked_for(
    instance: tuple[DnnGraph, Deployment], width: int
) -> None:
    """Every convex set is one, as long as its load at most; of graphs with a node to a block no other set is."""
    graph, deployment = instance
    contraction = contract(graph, Family.CONVEX, deployment)
    paths = Paths.of(contraction, graph)
    arcs = contents_diagram(contraction, width, paths=paths).arcs
    is_exact = width == 4096 and all(len(ids) == 1 for ids in contraction.members)
    for contents in all_contents(contraction):
        length = length_in(arcs, contents)
        if is_convex(graph, contraction, contents):
            assert length <= load_of(contraction, contents)
            assert length == load_of(contraction, contents) or width < 4096
        elif is_exact:
            assert length == np.inf


def test_layers_of_a_diagram_of_convex_sets_share_its_nodes_as_they_like(monkeypatch: pytest.MonkeyPatch) -> None:
    """Narrow but for one place: shares of the layers are too few there, and all nodes together are not."""
    side = chain([1.0] * 30)
    middle = tuple(Node(v, 1.0, 1.0, transfer_ms=1.0) for v in range(100, 106))
    ends = (Node(99, 1.0, 1.0, transfer_ms=1.0), Node(106, 1.0, 1.0))
    last = max(node.id for node in side.nodes)
    edges = (Edge(last, 99), *(Edge(99, v.id) for v in middle), *(Edge(v.id, 106) for v in middle))
    graph = DnnGraph((*side.nodes, ends[0], *middle, ends[1]), (*side.edges, *edges))
    contraction = contract(graph, Family.CONVEX, Deployment(2))
    paths = Paths.of(contraction, graph)
    monkeypatch.setattr(patterns, "MAX_NODES", (200,))
    for most, is_whole in ((300, False), (400, True)):
        monkeypatch.setattr(patterns, "MAX_WHOLE_WITH_PATHS", most)
        assert contents_diagram(contraction, paths=paths).is_whole == is_whole


def test_a_backward_node_of_no_class_orders_no_convex_set() -> None:
    """Its edges are mirrored to order the stages of a chain; a set that they leave and enter again is convex."""
    nodes = [Node(1, 1.0, 1.0, colocation_class=1), Node(2, 1.0, 1.0, colocation_class=2)]
    nodes += [Node(101, 1.0, 1.0, is_backward=True, colocation_class=1), Node(102, 1.0, 1.0, is_backward=True)]
    nodes += [Node(103, 1.0, 1.0, is_backward=True, colocation_class=2)]
    edges = (Edge(1, 2), Edge(2, 102), Edge(102, 103), Edge(103, 101))
    graph = DnnGraph(tuple(nodes), edges)
    contraction = contract(graph, Family.CONVEX, Deployment(2))
    arcs = contents_diagram(contraction, paths=Paths.of(contraction, graph)).arcs
    for contents in all_contents(contraction):
        assert is_convex(graph, contraction, contents)
        assert length_in(arcs, contents) == load_of(contraction, contents)


@pytest.mark.parametrize("seed", range(6))
def test_a_diagram_begins_at_the_end_from_which_less_is_left_out(seed: int) -> None:
    contraction = contract(random_dag(seed, 24), Family.FREE, Deployment(3))
    chosen = contents_diagram(contraction, 8)
    assert chosen.dropped_ms > 0
    other = contents_diagram(contraction, 8, order=chosen.arcs.order[::-1].copy())
    assert chosen.badness <= other.badness


@pytest.mark.parametrize("seed", range(6))
def test_where_too_much_is_left_of_a_diagram_it_is_built_with_less_room(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    contraction = contract(random_dag(seed, 10), Family.FREE, Deployment(2))
    whole = contents_diagram(contraction)
    assert whole.is_whole
    monkeypatch.setattr("solvers.free.patterns.MAX_NODES", (100_000, 10))
    assert contents_diagram(contraction).num_nodes == whole.num_nodes
    monkeypatch.setattr("solvers.free.patterns.MAX_REDUCED", whole.num_nodes - 1)
    narrow = contents_diagram(contraction)
    assert narrow.num_nodes < whole.num_nodes
    assert narrow.dropped_ms > 0
    for contents in all_contents(contraction):
        assert length_in(narrow.arcs, contents) <= load_of(contraction, contents) * (1 + 1e-9)


def test_a_path_of_blocks_needs_two_nodes_per_layer() -> None:
    edges = contract(random_dag(3, num_nodes=12), Family.FREE, Deployment(2)).hyperedges
    assert edges
    assert contents_diagram(contract(chain([1.0] * 50), Family.FREE, Deployment(2))).arcs.width == 2
