"""Tests of splits: completion, rules, families, the order of a pipeline."""

import itertools
from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment, Replication
from solvers.model.errors import SplitError
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Family, Split, check_split, complete_split, forward_edges, pipeline_order
from tests.support.graphs import chain, convex_witness, diamond, random_chain_split, small_graphs, with_backward


def split_of(*accelerators: set[int], cpus: tuple[set[int], ...] = ()) -> Split:
    """Shorthand for a split."""
    return Split(tuple(map(frozenset, accelerators)), tuple(map(frozenset, cpus)))


def rules(graph: DnnGraph, deployment: Deployment, split: Split, family: Family = Family.FREE) -> set[str]:
    """Keys of the rules a split breaks."""
    return {violation.rule for violation in check_split(graph, deployment, split, family)}


@st.composite
def placements(draw: st.DrawFn) -> tuple[DnnGraph, Deployment, Split]:
    """A small graph and any assignment of its nodes, classes torn apart or not."""
    graph, deployment = draw(small_graphs(max_nodes=6, memory_limit=True))
    device = st.integers(0, deployment.num_devices - 1)
    device_of = {v: draw(device) for v in graph.node_by_id}
    if draw(st.booleans()):
        for ids in graph.colocation_members.values():
            device_of.update(dict.fromkeys(ids, device_of[ids[0]]))
    return graph, deployment, Split.from_device_of(device_of, deployment)


def forward_only(graph: DnnGraph) -> nx.DiGraph:
    """The forward nodes and the edges between them."""
    forward = nx.DiGraph()
    forward.add_nodes_from(node.id for node in graph.nodes if not node.is_backward)
    forward.add_edges_from((e.source, e.target) for e in graph.edges if e.source in forward and e.target in forward)
    return forward


def is_convex_by_paths(graph: DnnGraph, split: Split) -> bool:
    """The definition: no path of forward nodes between two nodes of a device has an inner node elsewhere."""
    forward = forward_only(graph)
    for members in split.devices:
        inside = [v for v in members if v in forward]
        for u, w in itertools.permutations(inside, 2):
            if any(set(path) - members for path in nx.all_simple_paths(forward, u, w)):
                return False
    return True


def is_chain_by_orders(graph: DnnGraph, split: Split) -> bool:
    """The definition: in some order of the devices all ordering edges point forwards."""
    device_of = split.device_of()
    used = [d for d, members in enumerate(split.devices) if members]
    return any(
        all(order.index(device_of[u]) <= order.index(device_of[v]) for u, v in forward_edges(graph))
        for order in itertools.permutations(used)
    )


@given(placements())
def test_splits_convert_both_ways(case: tuple[DnnGraph, Deployment, Split]) -> None:
    graph, deployment, split = case
    assert Split.from_device_of(split.device_of(), deployment) == split
    assert complete_split(graph, split) == split
    assert len(split.devices) == deployment.num_devices


@given(placements())
def test_families_match_their_definitions_and_contain_each_other(case: tuple[DnnGraph, Deployment, Split]) -> None:
    graph, deployment, split = case
    in_chain = "chain" not in rules(graph, deployment, split, Family.CHAIN)
    in_convex = "convex" not in rules(graph, deployment, split, Family.CONVEX)
    assert in_chain == is_chain_by_orders(graph, split)
    assert in_convex == is_convex_by_paths(graph, split)
    assert in_convex or not in_chain
    assert rules(graph, deployment, split, Family.CHAIN) - {"chain"} == rules(graph, deployment, split)
    assert rules(graph, deployment, split, Family.CONVEX) - {"convex"} == rules(graph, deployment, split)


@given(placements())
def test_other_rules_match_their_definitions(case: tuple[DnnGraph, Deployment, Split]) -> None:
    graph, deployment, split = case
    on_accelerators = set().union(*split.accelerators) if split.accelerators else set()
    expected = set()
    if any(not node.runs_on_accelerator and node.id in on_accelerators for node in graph.nodes):
        expected.add("unsupported")
    limit = deployment.memory_bytes
    if limit is not None and any(
        sum(graph.node_by_id[v].memory_bytes for v in members) > limit for members in split.accelerators
    ):
        expected.add("memory")
    pairs = itertools.combinations(graph.nodes, 2)
    device_of = split.device_of()
    if any(
        a.colocation_class is not None
        and a.colocation_class == b.colocation_class
        and device_of[a.id] != device_of[b.id]
        for a, b in pairs
    ):
        expected.add("colocation")
    assert rules(graph, deployment, split) == expected


@given(placements())
def test_pipeline_order_lists_used_devices_along_the_edges(case: tuple[DnnGraph, Deployment, Split]) -> None:
    graph, _, split = case
    order = pipeline_order(graph, split)
    assert (order is not None) == is_chain_by_orders(graph, split)
    if order is not None:
        assert sorted(order) == [d for d, members in enumerate(split.devices) if members]
        device_of = split.device_of()
        for u, v in forward_edges(graph):
            assert order.index(device_of[u]) <= order.index(device_of[v])


@given(small_graphs(memory_limit=False), st.integers(0, 1000))
def test_stages_of_a_topological_order_form_a_chain(case: tuple[DnnGraph, Deployment], seed: int) -> None:
    graph, deployment = case
    split = random_chain_split(graph, deployment, seed)
    assert rules(graph, deployment, split, Family.CHAIN) <= {"unsupported"}


def test_pipeline_order_by_hand() -> None:
    graph = chain((1, 1, 1, 1))
    assert pipeline_order(graph, split_of({3, 4}, {1, 2})) == (1, 0)
    assert pipeline_order(graph, split_of({3}, set(), {4}, cpus=({1, 2},))) == (3, 0, 2)
    assert pipeline_order(graph, split_of({1, 3}, {2, 4})) is None
    assert pipeline_order(diamond(), split_of({1, 4}, {2, 3})) is None


def test_pipeline_order_puts_devices_without_forward_nodes_last() -> None:
    forward = chain((1, 1))
    backward = Node(9, 1, 1, is_backward=True)
    graph = DnnGraph((backward, *forward.nodes), (*forward.edges, Edge(2, 9)))
    assert pipeline_order(graph, split_of({9}, {1}, {2})) == (1, 2, 0)


def test_backward_nodes_follow_their_class_and_do_not_break_a_chain() -> None:
    graph = with_backward(chain((1, 1, 1)))
    twins = {v: next(w for w in graph.readers[v] if graph.node_by_id[w].is_backward) for v in (1, 2, 3)}
    forward_split = split_of({1}, {2, 3})
    whole = complete_split(graph, forward_split)
    assert whole == split_of({1, twins[1]}, {2, 3, twins[2], twins[3]})
    assert rules(graph, Deployment(2), whole, Family.CHAIN) == set()
    assert rules(graph, Deployment(2), whole, Family.CONVEX) == set()
    torn = split_of({1, twins[2]}, {2, 3, twins[1], twins[3]})
    assert rules(graph, Deployment(2), torn) == {"colocation"}


def test_a_class_of_backward_nodes_only_has_its_place_in_the_chain() -> None:
    """Between 1b and 3b in the backward pass means between 1 and 3 in the pipeline."""
    graph = with_backward(chain((1, 1, 1)))
    kept = tuple(node for node in graph.nodes if node.id != 2)
    edges = (*(e for e in graph.edges if 2 not in (e.source, e.target)), Edge(1, 3))
    graph = DnnGraph(kept, edges)
    lonely = next(n.id for n in graph.nodes if n.is_backward and len(graph.colocation_members[n.colocation_class]) == 1)
    others = set(graph.node_by_id) - {lonely}
    first = {1, *graph.colocation_members[graph.node_by_id[1].colocation_class or 0]}
    assert pipeline_order(graph, split_of(first, {lonely}, others - first)) == (0, 1, 2)
    assert pipeline_order(graph, split_of(others, {lonely})) is None
    assert rules(graph, Deployment(2), split_of(others, {lonely}), Family.CONVEX) == set()


def test_witness_that_convex_beats_chain() -> None:
    graph = convex_witness()
    deployment = Deployment(2)
    best: dict[Family, float] = {}
    for devices in itertools.product(range(2), repeat=4):
        split = Split.from_device_of(dict(zip((1, 2, 3, 4), devices, strict=True)), deployment)
        value = split_costs(graph, deployment, split).max_load_ms
        for family in Family:
            if not check_split(graph, deployment, split, family):
                best[family] = min(best.get(family, value), value)
    assert best == {Family.CHAIN: 5.0, Family.CONVEX: 4.0, Family.FREE: 4.0}


def test_devices_that_are_not_there_may_be_listed_but_not_used() -> None:
    graph = chain((1, 1))
    assert rules(graph, Deployment(1), split_of({1, 2}, set(), cpus=(set(),))) == set()
    assert rules(graph, Deployment(1), split_of({1}, {2})) == {"device count"}
    assert rules(graph, Deployment(1), split_of({1}, cpus=({2},))) == {"device count"}
    assert rules(graph, Deployment(4, 4), split_of({1}, {2})) == set()


def test_messages_name_the_device_and_by_how_much_it_falls_short() -> None:
    gib = 2.0**30
    nodes = (Node(1, 1, 1, 3 * gib), Node(2, 1, 1, gib, runs_on_accelerator=False, name="embed"))
    found = check_split(DnnGraph(nodes, ()), Deployment(1, 0, 2.5 * gib), split_of({1, 2}))
    assert [violation.message for violation in found] == [
        "node 2 (embed) is on accelerator 1 but runs on CPUs only.",
        "Accelerator 1 is short by 1.5 GiB: it holds 4 GiB, its capacity is 2.5 GiB.",
    ]
    graph = chain((1, 1, 1))
    convex = check_split(graph, Deployment(1, 1), split_of({2}, cpus=({1, 3},)), Family.CONVEX)
    assert [violation.message for violation in convex] == ["A forward path leaves CPU 1 and comes back at node 3."]


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (split_of({1, 2, 7}), "The split places node 7, which the graph does not have; remove it."),
        (split_of({1, 2}, {2}), "The split places node 2 on two devices; keep one."),
        (split_of({1}), "The split leaves out node 2, and no placed node shares its colocation class; place it"),
    ],
)
def test_a_split_of_another_graph_is_refused(split: Split, message: str) -> None:
    graph = chain((1, 1))
    with pytest.raises(SplitError, match=message):
        complete_split(graph, split)
    with pytest.raises(SplitError, match=message):
        check_split(graph, Deployment(2), split)


def test_an_incomplete_split_is_completed_before_it_is_checked() -> None:
    graph = with_backward(chain((1, 1)))
    with pytest.raises(SplitError, match="complete it first"):
        check_split(graph, Deployment(2), split_of({1}, {2}))


def test_a_split_with_more_devices_than_any_deployment_is_judged_not_refused() -> None:
    many = split_of({1, 2}, *[set() for _ in range(2000)])
    assert complete_split(chain((1, 1)), many) == many


def test_replicas_take_up_accelerators() -> None:
    graph = chain((1, 1, 1))
    split = Split((frozenset({1, 2}), frozenset({3})), (), (3, 1))
    assert (split.num_accelerators_used, split.num_replicas(0), split.num_replicas(1)) == (4, 3, 1)
    on_four = Deployment(4, replication=Replication(3))
    assert rules(graph, on_four, split) == set()
    assert rules(graph, replace(on_four, num_accelerators=3), split) == {"device count"}
    assert rules(graph, replace(on_four, replication=Replication(2)), split) == {"replicas"}
    assert rules(graph, replace(on_four, replication=None), split) == {"replicas"}


def test_a_replicated_split_has_an_entry_for_each_idle_accelerator() -> None:
    split = Split((frozenset({1, 2}), frozenset(), frozenset()), (frozenset({3}),), (3, 1, 1))
    on_five = split.on(Deployment(5, 2))
    assert on_five.accelerators == (frozenset({1, 2}), frozenset(), frozenset())
    assert on_five.replicas == (3, 1, 1)
    assert on_five.cpus == (frozenset({3}), frozenset())
    on_three = split.on(Deployment(3, 1))
    assert (on_three.accelerators, on_three.replicas) == ((frozenset({1, 2}),), (3,))
    assert on_three.device_of() == {1: 0, 2: 0, 3: 1}
    assert [on_three.num_replicas(d) for d in range(2)] == [3, 1]
    assert split.on(Deployment(2)).num_accelerators_used == 3


def test_single_replicas_are_as_good_as_none() -> None:
    assert Split((frozenset({1}),), (), (1,)) == Split((frozenset({1}),))
    assert Split((frozenset({1}), frozenset()), (), (1, 4)) == Split((frozenset({1}), frozenset()))
    graph = chain((1, 1))
    whole = Split((frozenset({1, 2}),), (), (2,))
    assert complete_split(graph, whole) == whole


@pytest.mark.parametrize(
    ("replicas", "message"),
    [((2, 2), "2 numbers of replicas for 1 accelerator entries"), ((0,), "Accelerator entry 1 has 0 replicas; give")],
)
def test_replicas_that_fit_no_entry_are_refused(replicas: tuple[int, ...], message: str) -> None:
    with pytest.raises(SplitError, match=message):
        Split((frozenset({1}),), (), replicas)


class TestSubgraphs:
    """Accelerators that run several subgraphs one after the other."""

    def test_one_subgraph_each_is_a_split_without_subgraphs(self) -> None:
        split = Split.from_subgraphs(((frozenset({1, 2}), frozenset()), ()), (frozenset({3}),))
        assert split == Split((frozenset({1, 2}), frozenset()), (frozenset({3}),))
        assert split.subgraphs == ()
        assert split.subgraphs_of(0) == (frozenset({1, 2}),)
        assert split.subgraphs_of(1) == ()

    @pytest.mark.parametrize(
        "subgraphs",
        [((frozenset({1}),),), ((frozenset({1, 2}), frozenset({2})),), ((frozenset({1}), frozenset({3})),)],
    )
    def test_they_hold_exactly_the_nodes_of_their_accelerator(
        self, subgraphs: tuple[tuple[frozenset[int], ...], ...]
    ) -> None:
        with pytest.raises(SplitError, match="do not hold exactly its nodes"):
            Split((frozenset({1, 2}),), (), (), subgraphs)
        with pytest.raises(SplitError, match="one list for each"):
            Split((frozenset({1}), frozenset({2})), (), (), ((frozenset({1}),),))

    def test_resizing_and_completing_keep_them(self) -> None:
        graph = chain((1, 1, 1, 1))
        nodes = tuple(replace(node, colocation_class=7 if node.id in (2, 4) else None) for node in graph.nodes)
        graph = DnnGraph(nodes, graph.edges)
        split = Split.from_subgraphs(((frozenset({1}), frozenset({2})), (), (frozenset({3}),)), ())
        assert complete_split(graph, split).subgraphs[0] == (frozenset({1}), frozenset({2, 4}))
        resized = split.on(Deployment(5, max_subgraphs=2))
        assert resized.subgraphs_of(0) == split.subgraphs_of(0)
        assert len(resized.subgraphs) == 5

    def test_more_than_allowed_are_a_violation(self) -> None:
        graph = chain((1, 1, 1))
        split = Split.from_subgraphs(((frozenset({1}), frozenset({2}), frozenset({3})),), ())
        assert [v.rule for v in check_split(graph, Deployment(1, max_subgraphs=2), split)] == ["subgraphs"]
        assert not check_split(graph, Deployment(1, max_subgraphs=3), split)


def test_a_memory_that_is_short_by_next_to_nothing_is_told_in_bytes() -> None:
    graph = DnnGraph((Node(1, 1.0, 1.0, memory_bytes=2.0**30 + 5),), ())
    (violation,) = check_split(graph, Deployment(1, memory_bytes=2.0**30), Split((frozenset({1}),)))
    assert violation.message == "Accelerator 1 is short by 5 B: it holds 1 GiB, its capacity is 1 GiB."
