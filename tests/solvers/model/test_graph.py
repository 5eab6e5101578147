"""Tests of the graph: what it refuses, its orders, its bandwidth."""

import itertools
import math
from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.model.deployment import Deployment
from solvers.model.errors import GraphError
from solvers.model.graph import MAX_BYTES, MAX_ID, MAX_TIME_MS, DnnGraph, Edge, Node
from tests.support.graphs import chain, diamond, small_graphs


def sized_chain(bytes_per_ms: float = 100.0, sizes: tuple[float, ...] = (50.0, 200.0, 0.0)) -> DnnGraph:
    """A path whose node i sends sizes[i] bytes to the next, at one bandwidth."""
    nodes = [Node(i, 1.0, 4.0, transfer_ms=size / bytes_per_ms) for i, size in enumerate(sizes)]
    edges = tuple(Edge(i, i + 1, size) for i, size in enumerate(sizes))
    return DnnGraph((*nodes, Node(len(sizes), 1.0, 4.0)), edges)


@pytest.mark.parametrize(
    "field",
    ["accelerator_ms", "cpu_ms", "memory_bytes", "transfer_ms", "flops", "parameter_bytes", "activation_bytes"],
)
@pytest.mark.parametrize("value", [-1.0, -1e-300, math.inf, -math.inf, math.nan, 1e300])
def test_a_node_refuses_numbers_that_are_no_amounts(field: str, value: float) -> None:
    with pytest.raises(GraphError, match=rf"^node 7 \(conv\): {field} is .*; it must be a number from 0 to "):
        replace(Node(7, 1.0, 1.0, name="conv"), **{field: value})


def test_the_largest_amounts_are_accepted_and_their_sums_are_finite() -> None:
    nodes = tuple(Node(v, MAX_TIME_MS, MAX_TIME_MS, MAX_BYTES, MAX_TIME_MS) for v in range(100))
    assert math.isfinite(sum(node.accelerator_ms + node.transfer_ms + node.memory_bytes for node in nodes))


@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan, 1e300])
def test_an_edge_refuses_sizes_that_are_no_amounts(value: float) -> None:
    with pytest.raises(GraphError, match=r"^edge 1 -> 2: size_bytes is "):
        Edge(1, 2, value)


@pytest.mark.parametrize("node_id", [MAX_ID + 1, -MAX_ID - 1, pytest.param(10**5000, id="huge")])
def test_ids_beyond_what_every_json_reader_keeps_are_refused(node_id: int) -> None:
    with pytest.raises(GraphError, match=r"the id is out of range; give one from -\d+ to \d+\.$"):
        Node(node_id, 1.0, 1.0)
    assert Node(MAX_ID, 1.0, 1.0).id == MAX_ID


def test_a_label_is_one_short_printable_line() -> None:
    assert Node(1, 0.0, 0.0).label == "node 1"
    assert Node(1, 0.0, 0.0, name="conv").label == "node 1 (conv)"
    for name in ("two\nlines", "\ud800", "\x00" * 9, "x" * 10_000, "\u2028", "a\u202eb"):
        label = Node(1, 0.0, 0.0, name=name).label
        assert label.isprintable()
        assert len(label) <= 70
        label.encode()


@pytest.mark.parametrize(
    ("ids", "edges", "message"),
    [
        ((), (), "The graph has no nodes; give it at least one."),
        ((1, 2, 1), (), "node 1: its id is used twice; ids must differ."),
        ((1,), ((1, 2),), "edge 1 -> 2: there is no node 2; add the node or remove the edge."),
        ((2,), ((1, 2),), "edge 1 -> 2: there is no node 1; add the node or remove the edge."),
        ((1, 2), ((1, 2), (1, 2)), "edge 1 -> 2 is listed twice; keep one."),
        ((1,), ((1, 1),), "The graph has a cycle: 1 -> 1;"),
        ((1, 2, 3, 4), ((4, 1), (1, 2), (2, 3), (3, 1)), "The graph has a cycle: 1 -> 2 -> 3 -> 1;"),
    ],
)
def test_parts_that_form_no_graph_are_refused(
    ids: tuple[int, ...], edges: tuple[tuple[int, int], ...], message: str
) -> None:
    with pytest.raises(GraphError) as caught:
        DnnGraph(tuple(Node(v, 1.0, 1.0) for v in ids), tuple(Edge(u, v) for u, v in edges))
    assert str(caught.value).startswith(message)


@given(st.data())
def test_a_cycle_is_found_and_named_truly(data: st.DataObject) -> None:
    num_nodes = data.draw(st.integers(1, 12))
    pair = st.tuples(st.integers(1, num_nodes), st.integers(1, num_nodes))
    pairs = data.draw(st.lists(pair, unique=True, max_size=30))
    acyclic = nx.is_directed_acyclic_graph(nx.DiGraph(pairs))
    nodes = tuple(Node(v, 1.0, 1.0) for v in range(1, num_nodes + 1))
    edges = tuple(Edge(u, v) for u, v in pairs)
    if acyclic:
        assert len(DnnGraph(nodes, edges).topological_order) == num_nodes
        return
    with pytest.raises(GraphError, match="The graph has a cycle: ") as caught:
        DnnGraph(nodes, edges)
    cycle = str(caught.value).removeprefix("The graph has a cycle: ").split(";")[0].split(" -> ")
    assert cycle[0] == cycle[-1]
    for u, v in itertools.pairwise(cycle):
        assert "..." in u + v or (int(u), int(v)) in pairs


def test_a_very_long_cycle_is_named_in_short() -> None:
    n = 20_000
    nodes = tuple(Node(v, 1.0, 1.0) for v in range(n))
    edges = tuple(Edge(v, (v + 1) % n) for v in range(n))
    with pytest.raises(GraphError, match=r"20000 nodes") as caught:
        DnnGraph(nodes, edges)
    assert len(str(caught.value)) < 200


@given(small_graphs(max_nodes=8))
def test_orders_and_neighbours(case: tuple[DnnGraph, Deployment]) -> None:
    graph, _ = case
    position = {v: i for i, v in enumerate(graph.topological_order)}
    assert sorted(position) == sorted(graph.node_by_id)
    for edge in graph.edges:
        assert position[edge.source] < position[edge.target]
        assert edge.target in graph.readers[edge.source]
        assert edge.source in graph.inputs[edge.target]
    pairs = {(edge.source, edge.target) for edge in graph.edges}
    assert sum(map(len, graph.readers.values())) == sum(map(len, graph.inputs.values())) == len(pairs)
    assert sum(len(tensor.readers) for tensor in graph.tensors) == len(graph.edges)
    listed = [v for members in graph.colocation_members.values() for v in members]
    assert sorted(listed) == sorted(node.id for node in graph.nodes if node.colocation_class is not None)
    assert graph.is_training == any(node.is_backward for node in graph.nodes)


def test_topological_order_keeps_the_files_order_where_it_can() -> None:
    assert diamond().topological_order == (1, 2, 3, 4)
    graph = diamond()
    assert DnnGraph(graph.nodes[::-1], graph.edges).topological_order == (1, 3, 2, 4)


@given(small_graphs())
def test_digest_is_equal_for_equal_graphs_and_tells_others_apart(case: tuple[DnnGraph, Deployment]) -> None:
    graph, _ = case
    assert DnnGraph(graph.nodes, graph.edges).digest == graph.digest
    first, *others = graph.nodes
    for changed in (
        replace(first, accelerator_ms=first.accelerator_ms + 1),
        replace(first, name="other"),
        replace(first, is_backward=not first.is_backward),
        replace(first, colocation_class=99),
    ):
        assert DnnGraph((changed, *others), graph.edges).digest != graph.digest


def test_digest_does_not_depend_on_how_a_number_is_written() -> None:
    floats = DnnGraph((Node(1, 0.0, 2.0), Node(2, 0.0, 2.0)), (Edge(1, 2, 0.0),))
    others = DnnGraph((Node(1, -0.0, 2), Node(2, 0, 2)), (Edge(1, 2, -0.0),))
    assert floats == others
    assert floats.digest == others.digest


def test_one_bandwidth_explains_sizes_and_times() -> None:
    assert sized_chain(100.0).bandwidth_bytes_per_ms == pytest.approx(100.0)


@pytest.mark.parametrize(
    "edges",
    [
        (Edge(0, 1), Edge(1, 2, 200.0)),  # a size is missing
        (Edge(0, 1, 50.0), Edge(0, 2, 60.0), Edge(1, 2, 200.0)),  # the sizes out of one node differ
        (Edge(0, 1, 50.0), Edge(1, 2, 300.0)),  # two bandwidths
        (Edge(0, 1, 50.0), Edge(1, 2, 0.0)),  # time without bytes
        (),  # nothing is sent
    ],
)
def test_without_consistent_bytes_there_is_no_bandwidth_only_a_multiple(edges: tuple[Edge, ...]) -> None:
    nodes = (Node(0, 1, 1, transfer_ms=0.5), Node(1, 1, 1, transfer_ms=2.0), Node(2, 1, 1))
    graph = DnnGraph(nodes, edges)
    assert graph.bandwidth_bytes_per_ms is None
    with pytest.raises(GraphError, match="give a multiple"):
        graph.with_bandwidth(100.0)
    assert [node.transfer_ms for node in graph.with_bandwidth_factor(2.0).nodes] == [0.25, 1.0, 0.0]


def test_a_bandwidth_beyond_all_numbers_is_none() -> None:
    graph = DnnGraph((Node(0, 1, 1, transfer_ms=5e-324), Node(1, 1, 1)), (Edge(0, 1, 1e18),))
    assert graph.bandwidth_bytes_per_ms is None


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_bandwidth_laws(old: int, new: int) -> None:
    graph = sized_chain(old)
    changed = graph.with_bandwidth(new)
    assert changed.bandwidth_bytes_per_ms == pytest.approx(new)
    assert changed.edges == graph.edges
    for before, after in zip(graph.nodes, changed.nodes, strict=True):
        assert after.transfer_ms == pytest.approx(before.transfer_ms * old / new)
        assert replace(after, transfer_ms=before.transfer_ms) == before
    by_factor = graph.with_bandwidth_factor(new / old)
    for one, other in zip(changed.nodes, by_factor.nodes, strict=True):
        assert one.transfer_ms == pytest.approx(other.transfer_ms)
    assert [n.transfer_ms for n in changed.with_bandwidth(old).nodes] == pytest.approx(
        [n.transfer_ms for n in graph.nodes]
    )


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_a_bandwidth_that_is_no_speed_is_refused(value: float) -> None:
    with pytest.raises(GraphError, match="give a positive number"):
        sized_chain().with_bandwidth(value)
    with pytest.raises(GraphError, match="give a positive number"):
        chain((1, 2)).with_bandwidth_factor(value)


def test_a_bandwidth_near_zero_is_refused_by_the_node_it_breaks() -> None:
    with pytest.raises(GraphError, match="node 0: transfer_ms is inf"):
        sized_chain().with_bandwidth(1e-310)
