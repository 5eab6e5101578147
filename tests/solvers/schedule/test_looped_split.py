"""Splits cut into chunks: every node once, on the right device, as balanced as the line allows."""

from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.model.costs import split_costs
from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Family, Split, check_split, pipeline_order
from solvers.schedule import looped_split as module
from solvers.schedule.looped_split import looped_split
from solvers.schedule.records import ScheduleError, ScheduleKind
from tests.support.graphs import (
    chain,
    convex_witness,
    random_chain_split,
    random_training_graph,
    training_chain,
    with_backward,
)

INTERLEAVED, ZB_V = ScheduleKind.INTERLEAVED, ScheduleKind.ZB_V


@given(st.integers(0, 9999), st.integers(1, 3), st.integers(2, 3), st.booleans())
def test_chunks_hold_every_node_once_and_data_flows_along_them(seed: int, p: int, chunks: int, is_v: bool) -> None:
    chunks = 2 if is_v else chunks
    graph = random_training_graph(seed, p * chunks + seed % 5, 0.3)
    deployment = Deployment(p)
    split = random_chain_split(graph, deployment, seed)
    order = pipeline_order(graph, split)
    assert order is not None
    looped = looped_split(graph, deployment, split, chunks, ZB_V if is_v else INTERLEAVED)
    assert looped.order == order
    assert looped.chunks_per_device == chunks
    assert looped.devices == ((*order, *reversed(order)) if is_v else order * chunks)
    assert all(looped.chunks)
    chunk_of = {v: c for c, members in enumerate(looped.chunks) for v in members}
    assert chunk_of.keys() == graph.node_by_id.keys()
    assert sum(map(len, looped.chunks)) == len(graph.nodes)
    assert {v: looped.devices[c] for v, c in chunk_of.items()} == looped.split.device_of()
    for edge in graph.edges:
        u, v = graph.node_by_id[edge.source], graph.node_by_id[edge.target]
        if u.is_backward is v.is_backward:
            first, second = (v, u) if u.is_backward else (u, v)
            assert chunk_of[first.id] <= chunk_of[second.id]
    # Twins stay together, and so does all else that the rules of a split ask, but that it is a chain.
    assert not check_split(graph, deployment, looped.split, Family.FREE)


def chunk_loads(graph: DnnGraph, p: int, order: list[int], cuts: tuple[int, ...]) -> list[float]:
    """Return the load of each chunk as if it had an accelerator of its own; node v and twin v + n move together."""
    n = len(order)
    device_of = {}
    for c, (a, b) in enumerate(pairwise((0, *cuts, n))):
        for v in order[a:b]:
            device_of[v] = device_of[v + n] = c
    deployment = Deployment(len(cuts) + 1)
    return [d.load_ms for d in split_costs(graph, deployment, Split.from_device_of(device_of, deployment)).devices]


halves = st.integers(1, 8).map(lambda twice: twice / 2)


@given(
    st.lists(st.tuples(halves, halves, halves), min_size=4, max_size=8), st.integers(1, 2), st.booleans(), st.booleans()
)
def test_no_other_cuts_of_a_short_line_are_better(
    nodes: list[tuple[float, float, float]], p: int, is_v: bool, searches: bool
) -> None:
    """Largest sum per device, then largest chunk; the search for long lines may miss it, but never the sum's bound."""
    graph = training_chain(*(list(values) for values in zip(*nodes, strict=True)))
    n = len(nodes)
    deployment = Deployment(p)
    split = Split.from_device_of({v: (v - 1) % n * p // n for v in graph.node_by_id}, deployment)
    kind = ZB_V if is_v else INTERLEAVED
    devices = (*range(p), *reversed(range(p))) if is_v else (*range(p), *range(p))

    def score(loads: list[float]) -> tuple[float, float]:
        return max(sum(load for load, e in zip(loads, devices, strict=True) if e == d) for d in range(p)), max(loads)

    order = list(range(1, n + 1))
    best = min(score(chunk_loads(graph, p, order, cuts)) for cuts in combinations(range(1, n), 2 * p - 1))
    with pytest.MonkeyPatch.context() as patch:
        if searches:
            patch.setattr(module, "MAX_CUTS", 0)
        looped = looped_split(graph, deployment, split, 2, kind)
    ends = tuple(max(v for v in chunk if v <= n) for chunk in looped.chunks[:-1])
    found = score(chunk_loads(graph, p, order, ends))
    if searches:
        least_chunk = min(max(chunk_loads(graph, p, order, cuts)) for cuts in combinations(range(1, n), 2 * p - 1))
        assert best <= found
        assert found[0] <= 2 * least_chunk
    else:
        assert found == best


def test_a_tensor_within_a_chunk_is_free_and_one_that_leaves_it_is_paid_once() -> None:
    """The dear tensor of node 2 stays inside, though the times alone would cut behind it."""
    graph = chain((1, 1, 1, 1, 1, 1, 1, 1), (0.1, 9, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1))
    split = Split((frozenset({1, 2, 3, 4}), frozenset({5, 6, 7, 8})))
    looped = looped_split(graph, Deployment(2), split, 2)
    assert any({2, 3} <= chunk for chunk in looped.chunks)


def test_chunks_respect_the_memory_where_they_can_and_say_where_not() -> None:
    graph = chain((4, 1, 1, 1, 1, 1), 0.0)
    nodes = tuple(replace(node, memory_bytes=size) for node, size in zip(graph.nodes, (1, 1, 4, 1, 1, 4), strict=True))
    graph = DnnGraph(nodes, graph.edges)
    split = Split((frozenset({1, 2, 3}), frozenset({4, 5, 6})))
    free = looped_split(graph, Deployment(2), split, 2)
    assert free.note == ""
    fits = looped_split(graph, Deployment(2, memory_bytes=10.0), split, 2)
    assert fits.note == ""
    assert all(sum(graph.node_by_id[v].memory_bytes for v in chunk) <= 5 for chunk in fits.chunks)
    tight = looped_split(graph, Deployment(2, memory_bytes=4.0), split, 2)
    assert "is short by" in tight.note


def test_nodes_that_run_on_cpus_only_stay_there() -> None:
    nodes = tuple(Node(v, 1.0, 2.0, runs_on_accelerator=v > 1) for v in range(1, 7))
    graph = DnnGraph(nodes, tuple(Edge(v, v + 1) for v in range(1, 6)))
    deployment = Deployment(1, 1)
    split = Split((frozenset({4, 5, 6}),), (frozenset({1, 2, 3}),))
    looped = looped_split(graph, deployment, split, 2)
    assert looped.devices == (1, 0, 1, 0)
    assert 1 in looped.split.cpus[0]
    assert not check_split(graph, deployment, looped.split)


def test_a_cpu_that_nothing_needs_stays_only_where_it_helps() -> None:
    graph = training_chain([1.0] * 12, [2.0] * 12, 3.0)
    split = Split.from_device_of(
        {v: (2, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1)[(v - 1) % 12] for v in range(1, 25)}, Deployment(2, 1)
    )
    slow = looped_split(graph, Deployment(2, 1), split, 2)
    assert slow.devices == (0, 1, 0, 1)
    nodes = tuple(replace(node, cpu_ms=node.accelerator_ms / 2) for node in graph.nodes)
    quick_cpu = DnnGraph(nodes, graph.edges)
    assert looped_split(quick_cpu, Deployment(2, 1), split, 2).devices == (2, 0, 1) * 2
    in_step = [looped_split(quick_cpu, Deployment(2, 1), split, 2, num_micro_batches=m).order for m in (8, 9, 12)]
    assert [len(order) for order in in_step] == [2, 3, 3]


def test_a_long_line_is_joined_and_still_cut_evenly() -> None:
    n = module.MAX_BLOCKS * 2 + 17
    graph = chain([1.0] * n, 0.0)
    split = Split.from_device_of({v: (v - 1) * 4 // n for v in graph.node_by_id}, Deployment(4))
    looped = looped_split(graph, Deployment(4), split, 3)
    loads = [device.load_ms for device in split_costs(graph, Deployment(4), looped.split).devices]
    assert max(loads) <= n / 4 + 12


def test_what_cannot_be_cut_is_said_in_a_sentence() -> None:
    line = chain((1, 1, 1))
    split = Split((frozenset({1}), frozenset({2, 3})))
    with pytest.raises(
        ScheduleError, match="4 chunks need as many parts that can be separated, and this pipeline has 3"
    ):
        looped_split(line, Deployment(2), split, 2)
    with pytest.raises(ScheduleError, match="1 chunks per device: give a number from 2 to 64, or choose 1f1b"):
        looped_split(line, Deployment(2), split, 1)
    with pytest.raises(ScheduleError, match="ZB-V runs 2 chunks per device, not 3; give 2"):
        looped_split(line, Deployment(2), split, 3, ZB_V)
    crossing = Split((frozenset({1, 4, 5, 8}), frozenset({2, 3, 6, 7})))
    with pytest.raises(ScheduleError, match="needs a pipeline"):
        looped_split(with_backward(convex_witness()), Deployment(2), crossing, 2)
    with pytest.raises(ScheduleError, match="communication"):
        looped_split(line, Deployment(2, communication=Communication.OVERLAPPED), split, 2)
