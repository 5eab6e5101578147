"""Tests of the preparation: merging and joining keep the loads and the optimum, whatever transfers cost."""

import itertools

import pytest
from hypothesis import given

from solvers.model.deployment import Communication, Deployment, InFlight, TrainingMemory
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Family, Split, check_split
from solvers.problem.bounds import balance_bound
from solvers.problem.contraction import Contraction, Hyperedge, block_times, contract
from tests.support.examples import examples
from tests.support.graphs import small_graphs
from tests.support.reference import tensors

Instance = tuple[DnnGraph, Deployment]


def traffic_of_blocks(contraction: Contraction, device: tuple[int, ...], d: int) -> tuple[float, float]:
    """What device d receives and sends, in ms, by the hyperedges of a contraction that keeps writers apart."""
    received = sent = 0.0
    for hyperedge in contraction.hyperedges:
        inside = [device[b] == d for b in hyperedge.blocks]
        if any(inside) and not all(inside):
            if device[hyperedge.writer] == d:  # type: ignore[index]
                sent += hyperedge.weight_ms
            else:
                received += hyperedge.weight_ms
    return received, sent


def traffic_of_nodes(graph: DnnGraph, device_of: dict[int, int], d: int) -> tuple[float, float]:
    """The same from the definition."""
    received = sent = 0.0
    for u, targets, ms in tensors(graph):
        readers = {device_of[v] for v in targets} - {device_of[u]}
        received += ms if d in readers else 0.0
        sent += ms if readers and device_of[u] == d else 0.0
    return received, sent


def best_max_load(instance: Instance, family: Family, join_idle: bool) -> float | None:
    """The least max-load over all ways to place the blocks of the contraction, judged on the original graph."""
    graph, deployment = instance
    contraction = contract(graph, family, deployment, join_idle=join_idle)
    best: float | None = None
    for device in itertools.product(range(deployment.num_devices), repeat=contraction.num_blocks):
        device_of = contraction.device_of(dict(enumerate(device)))
        split = Split.from_device_of(device_of, deployment)
        if check_split(graph, deployment, split, family):
            continue
        loads = []
        for d, members in enumerate(split.devices):
            if deployment.is_cpu(d):
                loads.append(sum(graph.node_by_id[v].cpu_ms for v in members))
                continue
            compute = sum(graph.node_by_id[v].accelerator_ms for v in members)
            received, sent = traffic_of_nodes(graph, device_of, d)
            loads.append(
                {
                    Communication.SUM: compute + received + sent,
                    Communication.OVERLAPPED: max(compute, received + sent),
                    Communication.FULL_DUPLEX: compute + max(received, sent),
                }[deployment.communication]
            )
        value = max(loads)
        best = value if best is None else min(best, value)
    return best


def with_communication(instance: Instance, communication: Communication) -> Instance:
    """The instance with its devices communicating in this way."""
    graph, d = instance
    return graph, Deployment(d.num_accelerators, d.num_cpus, d.memory_bytes, communication)


@pytest.mark.parametrize("communication", list(Communication))
@pytest.mark.parametrize("family", [Family.CHAIN, Family.FREE])
@given(instance=small_graphs(max_nodes=5, max_accelerators=2, idle_nodes=True))
@examples(150)
def test_joining_idle_blocks_keeps_the_optimum(
    instance: Instance, family: Family, communication: Communication
) -> None:
    instance = with_communication(instance, communication)
    assert best_max_load(instance, family, join_idle=True) == best_max_load(instance, family, join_idle=False)


@given(small_graphs(max_nodes=6, idle_nodes=True))
def test_hyperedges_tell_receiving_from_sending(instance: Instance) -> None:
    graph, deployment = with_communication(instance, Communication.FULL_DUPLEX)
    for family in Family:
        contraction = contract(graph, family, deployment)
        ends = [(h.blocks, h.writer) for h in contraction.hyperedges]
        assert len(set(ends)) == len(ends)
        assert all(h.writer in h.blocks for h in contraction.hyperedges)
        device = tuple(b % 2 for b in range(contraction.num_blocks))
        device_of = contraction.device_of(dict(enumerate(device)))
        for d in (0, 1):
            assert traffic_of_blocks(contraction, device, d) == traffic_of_nodes(graph, device_of, d)


def test_equal_hyperedges_merge_as_far_as_direction_does_not_matter() -> None:
    """Two tensors from 1 to 2, joined by colocation, and one back."""
    nodes = (Node(1, 1, 1, transfer_ms=2.0, colocation_class=1), Node(2, 1, 1, transfer_ms=4.0, colocation_class=2))
    more = (Node(3, 1, 1, transfer_ms=8.0, colocation_class=1), Node(4, 1, 1, colocation_class=2))
    back = (Node(5, 1, 1, colocation_class=1),)
    graph = DnnGraph((*nodes, *more, *back), (Edge(1, 2), Edge(3, 4), Edge(2, 5)))
    for communication in (Communication.SUM, Communication.OVERLAPPED):
        deployment = Deployment(2, communication=communication)
        assert contract(graph, Family.FREE, deployment).hyperedges == (Hyperedge((0, 1), 14.0, None),)
    deployment = Deployment(2, communication=Communication.FULL_DUPLEX)
    assert contract(graph, Family.FREE, deployment).hyperedges == (
        Hyperedge((0, 1), 10.0, 0),
        Hyperedge((0, 1), 4.0, 1),
    )


def test_idle_blocks_with_bytes_stay_apart_where_a_schedule_counts_them() -> None:
    """Node 2 takes no time; all fits on one accelerator for one micro-batch, which says nothing of several."""
    nodes = (Node(1, 1, 1, 4.0, 1.0), Node(2, 0, 0, 0.0, 1.0, activation_bytes=2.0), Node(3, 1, 1, 4.0))
    graph = DnnGraph(nodes, (Edge(1, 2), Edge(2, 3)))
    plain = Deployment(2, memory_bytes=100.0)
    assert contract(graph, Family.CHAIN, plain).num_blocks == 2
    scheduled = Deployment(2, memory_bytes=100.0, training_memory=TrainingMemory(InFlight.GPIPE, 64))
    assert contract(graph, Family.CHAIN, scheduled).num_blocks == 3


def test_an_idle_writer_of_several_readers_stays_apart_under_full_duplex() -> None:
    """{2} and {1, 3} both receive 2 ms and send 2 ms; with 1 beside 2 that device would send 4 ms."""
    nodes = (Node(1, 0, 0, transfer_ms=2.0), Node(2, 3, 3, transfer_ms=2.0), Node(3, 3, 3))
    graph = DnnGraph(nodes, (Edge(1, 2), Edge(1, 3), Edge(2, 3)))
    for communication, best in ((Communication.SUM, 6.0), (Communication.FULL_DUPLEX, 5.0)):
        instance = (graph, Deployment(2, communication=communication))
        assert best_max_load(instance, Family.FREE, join_idle=True) == best


@given(small_graphs())
@examples(100)
def test_block_times_are_those_of_the_contraction(instance: Instance) -> None:
    graph, deployment = instance
    for family in Family:
        whole, times = contract(graph, family, deployment, join_idle=False), block_times(graph, family, deployment)
        expected = {
            frozenset(ids): (a, c) for ids, a, c in zip(whole.members, whole.accelerator_ms, whole.cpu_ms, strict=True)
        }
        found = {
            frozenset(ids): (a, c) for ids, a, c in zip(times.members, times.accelerator_ms, times.cpu_ms, strict=True)
        }
        assert found.keys() == expected.keys()
        for ids, pair in found.items():
            assert pair == pytest.approx(expected[ids])
        assert balance_bound(times, deployment) == pytest.approx(balance_bound(whole, deployment))
