"""Tests of the evaluator against a second formula, laws, and the paper's published numbers."""

import json
from dataclasses import replace
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.formats.graph_json import read_graph, read_split
from solvers.model.costs import Objective, objective_value, single_sample_latency, split_costs
from solvers.model.deployment import Communication, Deployment, DeviceClass, Replication
from solvers.model.errors import DeploymentError
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Family, Split, check_split, complete_split
from tests.support.graphs import (
    chain,
    dag,
    diamond,
    mixed_placements,
    random_split,
    scaled,
    small_graphs,
    with_backward,
)
from tests.support.reference import tensors

Case = tuple[DnnGraph, Deployment, Split]


@st.composite
def placements(draw: st.DrawFn, *, max_nodes: int = 7, backward: bool | None = None) -> Case:
    """A small graph and any assignment of its nodes."""
    graph, deployment = draw(small_graphs(max_nodes=max_nodes, backward=backward))
    device = st.integers(0, deployment.num_devices - 1)
    return graph, deployment, Split.from_device_of({v: draw(device) for v in graph.node_by_id}, deployment)


def naive_load_ms(graph: DnnGraph, deployment: Deployment, split: Split, device: int) -> float:
    """The load as a hypergraph cut, straight from its definition."""
    members = split.devices[device]
    if deployment.is_cpu(device):
        return sum(graph.node_by_id[v].cpu_ms for v in members)
    load_ms = sum(graph.node_by_id[v].accelerator_ms for v in members)
    for u, readers, ms in tensors(graph):
        if {u, *readers} & members and {u, *readers} - members:
            load_ms += ms
    return load_ms


@given(placements())
def test_loads_are_compute_plus_cut_hyperedges(case: Case) -> None:
    graph, deployment, split = case
    costs = split_costs(graph, deployment, split)
    expected = [naive_load_ms(graph, deployment, split, d) for d in range(deployment.num_devices)]
    assert [device.load_ms for device in costs.devices] == expected
    assert costs.max_load_ms == max(expected)
    assert expected[costs.bottleneck] == costs.max_load_ms
    assert objective_value(graph, deployment, split, Objective.THROUGHPUT) == costs.max_load_ms


@given(placements())
def test_parts_add_up(case: Case) -> None:
    graph, deployment, split = case
    costs = split_costs(graph, deployment, split)
    for d, device in enumerate(costs.devices):
        assert device.device == d
        assert device.load_ms == device.compute_ms + device.receive_ms + device.send_ms
        assert device.memory_bytes == sum(graph.node_by_id[v].memory_bytes for v in split.devices[d])
        if deployment.is_cpu(d):
            assert device.receive_ms == device.send_ms == 0.0
    if not graph.is_training:
        assert all(device.backward_ms == 0.0 for device in costs.devices)
        assert costs.gpipe_ms == costs.max_load_ms
    assert costs.max_load_ms <= costs.gpipe_ms
    assert objective_value(graph, deployment, split, Objective.GPIPE) == costs.gpipe_ms
    forward, backward = ([getattr(d, part) for d in costs.devices] for part in ("forward_ms", "backward_ms"))
    assert costs.gpipe_ms == max(forward) + max(backward)


@given(placements())
def test_cut_tensors_are_those_read_elsewhere(case: Case) -> None:
    graph, deployment, split = case
    device_of = split.device_of()
    tensors = split_costs(graph, deployment, split).cut_tensors
    expected = {}
    for edge in graph.edges:
        if device_of[edge.source] != device_of[edge.target]:
            expected.setdefault((edge.source, edge.tensor), set()).add(device_of[edge.target])
    assert len(tensors) == len(expected)
    assert {t.key: set(t.to_devices) for t in tensors} == expected
    assert [t.most_ms for t in tensors] == sorted((t.most_ms for t in tensors), reverse=True)
    for tensor in tensors:
        assert tensor.from_device == device_of[tensor.source]


@given(mixed_placements())
def test_cut_tensors_take_what_their_devices_pay_for_them(case: Case) -> None:
    graph, deployment, split = case
    costs = split_costs(graph, deployment, split)
    for d, device in enumerate(costs.devices):
        sent = [tensor for tensor in costs.cut_tensors if tensor.from_device == d]
        received = [tensor for tensor in costs.cut_tensors if d in tensor.to_devices]
        assert device.send_ms == sum(tensor.send_ms for tensor in sent)
        assert device.receive_ms == sum(tensor.ms_on(d) for tensor in received)
        assert device.load_ms == device.compute_ms + sum(tensor.ms_on(d) for tensor in (*sent, *received))


def test_each_end_of_a_cut_tensor_pays_on_its_own_link() -> None:
    graph = dag((1, 1, 1, 1), ((1, 2), (1, 3), (1, 4)), transfer_ms=(1.0, 0, 0, 0))
    classes = (DeviceClass("near", 2, link_speed=2.0), DeviceClass("far", 1, link_speed=0.25))
    deployment = Deployment.of_classes(classes, 1, accelerators_per_server=2, server_link_speed=4.0)
    (tensor,) = split_costs(graph, deployment, Split.from_device_of({1: 0, 2: 1, 3: 2, 4: 3}, deployment)).cut_tensors
    # One copy leaves the server at the speed of between servers; the CPU pays nothing.
    assert (tensor.send_ms, tensor.to_devices, tensor.receive_ms) == (0.5, (1, 2, 3), (0.125, 4.0, 0.0))
    assert tensor.most_ms == 4.0


@given(placements(), st.randoms())
def test_renaming_and_reordering_change_nothing(case: Case, random: object) -> None:
    graph, deployment, split = case
    ids = list(graph.node_by_id)
    new_ids = [7 * v + 3 for v in ids]
    random.shuffle(new_ids)  # type: ignore[attr-defined]
    new = dict(zip(ids, new_ids, strict=True))
    nodes = [replace(node, id=new[node.id], name=f"n{node.id}") for node in graph.nodes]
    edges = [replace(e, source=new[e.source], target=new[e.target]) for e in graph.edges]
    random.shuffle(nodes)  # type: ignore[attr-defined]
    random.shuffle(edges)  # type: ignore[attr-defined]
    renamed = DnnGraph(tuple(nodes), tuple(edges))
    moved = Split.from_device_of({new[v]: d for v, d in split.device_of().items()}, deployment)
    assert split_costs(renamed, deployment, moved).devices == split_costs(graph, deployment, split).devices
    for objective in Objective:
        before = objective_value(graph, deployment, split, objective)
        assert objective_value(renamed, deployment, moved, objective) == before


@given(placements())
def test_doubling_all_times_doubles_every_value(case: Case) -> None:
    graph, deployment, split = case
    for objective in Objective:
        value = objective_value(graph, deployment, split, objective)
        doubled = objective_value(scaled(graph, 2.0), deployment, split, objective)
        assert doubled == (None if value is None else 2.0 * value)


@given(placements(), st.permutations(range(3)))
def test_devices_that_are_alike_can_be_exchanged(case: Case, order: list[int]) -> None:
    graph, deployment, split = case
    accelerators = tuple(split.accelerators[d] for d in order if d < deployment.num_accelerators)
    exchanged = Split(accelerators, split.cpus[::-1])
    for objective in Objective:
        value = objective_value(graph, deployment, split, objective)
        assert objective_value(graph, deployment, exchanged, objective) == value
    for family in Family:
        broken = check_split(graph, deployment, exchanged, family)
        assert bool(broken) == bool(check_split(graph, deployment, split, family))


@given(small_graphs(unsupported=False, memory_limit=False))
def test_one_accelerator_computes_everything_and_sends_nothing(case: tuple[DnnGraph, Deployment]) -> None:
    graph, _ = case
    total_ms = sum(node.accelerator_ms for node in graph.nodes)
    everything = Split((frozenset(graph.node_by_id),))
    costs = split_costs(graph, Deployment(3, 1), everything)
    assert costs.max_load_ms == total_ms
    assert costs.cut_tensors == ()
    assert [d.load_ms for d in costs.devices] == [total_ms, 0.0, 0.0, 0.0]
    assert single_sample_latency(graph, Deployment(3, 1), everything) == (None if graph.is_training else total_ms)


def test_a_tensor_is_paid_once_by_its_sender_and_once_by_each_reading_accelerator() -> None:
    nodes = (Node(1, 1, 9, transfer_ms=10.0), *(Node(v, 1, 9) for v in (2, 3, 4, 5)))
    graph = DnnGraph(nodes, tuple(Edge(1, v) for v in (2, 3, 4, 5)))
    split = Split((frozenset({1}), frozenset({2, 3}), frozenset({4})), (frozenset({5}),))
    costs = split_costs(graph, Deployment(3, 1), split)
    assert [d.send_ms for d in costs.devices] == [10.0, 0.0, 0.0, 0.0]
    assert [d.receive_ms for d in costs.devices] == [0.0, 10.0, 10.0, 0.0]
    assert [d.load_ms for d in costs.devices] == [11.0, 12.0, 11.0, 9.0]


def test_transfers_in_training_belong_to_a_pass() -> None:
    """Chain 1 -> 2 cut in the middle, twins b1, b2: 1 sends to 2 forwards, b2 sends to b1 backwards."""
    graph = with_backward(chain((3, 5), transfer_ms=1.0), backward_factor=2.0)
    split = complete_split(graph, Split((frozenset({1}), frozenset({2}))))
    first, second = split_costs(graph, Deployment(2), split).devices
    assert (first.forward.compute_ms, first.forward.receive_ms, first.forward.send_ms) == (3.0, 0.0, 1.0)
    assert (first.backward.compute_ms, first.backward.receive_ms, first.backward.send_ms) == (6.0, 1.0, 0.0)
    assert (second.forward.compute_ms, second.forward.receive_ms, second.forward.send_ms) == (5.0, 1.0, 0.0)
    assert (second.backward.compute_ms, second.backward.receive_ms, second.backward.send_ms) == (10.0, 0.0, 1.0)
    assert split_costs(graph, Deployment(2), split).gpipe_ms == 6.0 + 11.0


@given(placements(backward=False))
def test_latency_lies_between_the_critical_path_and_everything_in_a_row(case: Case) -> None:
    graph, deployment, split = case
    latency_ms = single_sample_latency(graph, deployment, split)
    device_of = split.device_of()
    costs = split_costs(graph, deployment, split)
    if latency_ms is None:
        task = {v: v if deployment.is_cpu(d) else -1 - d for v, d in device_of.items()}
        waits = nx.DiGraph((task[e.source], task[e.target]) for e in graph.edges if task[e.source] != task[e.target])
        assert not nx.is_directed_acyclic_graph(waits)
        return
    serial_ms = sum(d.load_ms for d in costs.devices)
    own_ms = {v: n.cpu_ms if deployment.is_cpu(device_of[v]) else n.accelerator_ms for v, n in graph.node_by_id.items()}
    finish: dict[int, float] = {}
    for v in graph.topological_order:
        finish[v] = own_ms[v] + max((finish[u] for u in graph.inputs[v]), default=0.0)
    assert max(finish.values()) <= latency_ms <= serial_ms
    assert latency_ms >= max((costs.devices[d].load_ms for d in range(deployment.num_accelerators)), default=0.0)


def test_latency_by_hand() -> None:
    """The diamond 1 -> {2, 3} -> 4 with times 1, 2, 3, 4 and transfers of 1 ms; CPUs are four times slower."""
    graph = diamond()
    deployment = Deployment(2, 1)
    # Block {1}: 1 + send 1 = 2; block {2, 3, 4}: receive 1 + 9 = 10.
    assert single_sample_latency(graph, deployment, Split((frozenset({1}), frozenset({2, 3, 4})))) == 12.0
    # All on CPUs, as many as needed: 4 + 12 + 16.
    assert single_sample_latency(graph, deployment, Split((), (frozenset({1, 2, 3, 4}),))) == 32.0
    # {1, 4} waits for {2, 3} and the other way round.
    assert single_sample_latency(graph, deployment, Split((frozenset({1, 4}), frozenset({2, 3})))) is None
    assert (
        single_sample_latency(with_backward(graph), deployment, random_split(with_backward(graph), deployment, 1))
        is None
    )


def test_latency_after_replicas_is_that_of_the_accelerators_that_follow() -> None:
    """Three fast accelerators hold node 1, so node 2 is on the fourth: 1 + send 1, and receive 1 + 2 / 0.25."""
    graph = chain((1.0, 2.0), transfer_ms=1.0)
    first, second = (node.id for node in graph.nodes)
    deployment = Deployment.of_classes((DeviceClass("fast", 3), DeviceClass("slow", 1, 0.25)))
    split = Split((frozenset({first}), frozenset({second})), (), (3, 1))
    assert single_sample_latency(graph, deployment, split) == 11.0


def test_latency_of_subgraphs_by_hand() -> None:
    """The diamond again, on one accelerator: data between its subgraphs goes through host memory."""
    graph = diamond()

    def latency(*parts: set[int], cpu: frozenset[int] = frozenset()) -> float | None:
        split = Split.from_subgraphs((tuple(map(frozenset, parts)),), (cpu,))
        return single_sample_latency(graph, Deployment(1, 1, max_subgraphs=len(parts)), split)

    # {1}: 1 + send 1; {2, 3, 4}: receive 1 + 9.
    assert latency({1}, {2, 3, 4}) == 12.0
    # {1}: 2; {2}: receive 1 + 2 + send 1; {3, 4}: receive 1 and 2's 1, and 7.
    assert latency({1}, {2}, {3, 4}) == 2 + 4 + 9
    # 3 on a CPU takes 12 beside {2}: {1} 2, 3 until 14, {4}: receive both and 4.
    assert latency({1, 2}, {4}, cpu=frozenset({3})) == (3 + 2) + 12 + (2 + 4)
    # An order against the data is a circle.
    assert latency({2, 3, 4}, {1}) is None
    # Independent subgraphs wait for each other all the same: 2 and 3 one after the other.
    assert latency({1}, {2}, {3}, {4}) == 2 + (1 + 2 + 1) + (1 + 3 + 1) + (2 + 4)


LAYER_FILES = (
    "bert24_layer_inference",
    "bert24_layer_training",
    "gnmt_layer_inference",
    "inceptionv3_layer_inference",
    "resnet50_layer_inference",
    "resnet50_layer_training",
)
OPERATOR_FILES = (
    "bert_l-3_operator_inference",
    "bert_l-3_operator_training",
    "bert_l-6_operator_inference",
    "resnet50_operator_inference",
)


def expert_split(folder: Path, name: str) -> Split:
    """A training graph without a split of its own uses the one for inference."""
    path = folder / "expert_splits" / f"{name}.json"
    return read_split(path if path.exists() else path.with_name(path.name.replace("training", "inference")))


@pytest.mark.parametrize("name", LAYER_FILES)
def test_expert_max_load_of_the_paper(paper_workloads: Path, name: str) -> None:
    known = json.loads((paper_workloads / "known_results.json").read_text())["throughput"][name]
    graph, deployment = read_graph(paper_workloads / "throughput" / f"{name}.json")
    split = complete_split(graph, expert_split(paper_workloads, name))
    assert split_costs(graph, deployment, split).max_load_ms == pytest.approx(known["expert_ms"], rel=1e-3)


@pytest.mark.parametrize("name", LAYER_FILES + OPERATOR_FILES)
def test_one_accelerator_of_the_paper(paper_workloads: Path, name: str) -> None:
    """One accelerator takes the sum of all times, also where that would not fit or is not supported."""
    known = json.loads((paper_workloads / "known_results.json").read_text())["throughput"][name]
    graph, deployment = read_graph(paper_workloads / "throughput" / f"{name}.json")
    everything = Split((frozenset(graph.node_by_id),))
    value = split_costs(graph, deployment, everything).max_load_ms
    assert value == pytest.approx(known["one_accelerator_ms"], rel=1e-3)


@pytest.mark.parametrize("name", ["bert24_layer_inference", "gnmt_layer_inference", "resnet50_layer_inference"])
def test_expert_latency_of_the_paper(paper_workloads: Path, name: str) -> None:
    known = json.loads((paper_workloads / "known_results.json").read_text())["latency"][name]
    graph, deployment = read_graph(paper_workloads / "latency" / f"{name}.json")
    split = complete_split(graph, expert_split(paper_workloads, name))
    assert single_sample_latency(graph, deployment, split) == pytest.approx(known["expert_ms"], rel=1e-3)
    fits = "memory" not in {violation.rule for violation in check_split(graph, deployment, split)}
    assert fits == (known["expert_memory"] == "fits")


@given(placements())
def test_overlap_is_as_defined_and_never_slower(case: Case) -> None:
    graph, deployment, split = case
    of = {c: split_costs(graph, replace(deployment, communication=c), split) for c in Communication}
    for d, plain in enumerate(of[Communication.SUM].devices):
        compute, received, sent = plain.compute_ms, plain.receive_ms, plain.send_ms
        assert of[Communication.OVERLAPPED].devices[d].load_ms == max(compute, received + sent)
        assert of[Communication.FULL_DUPLEX].devices[d].load_ms == compute + max(received, sent)
        for costs in of.values():
            device = costs.devices[d]
            assert (device.compute_ms, device.receive_ms, device.send_ms) == (compute, received, sent)
            assert device.load_ms <= plain.load_ms
            # Apart in time, the passes overlap less than together.
            assert device.load_ms <= device.forward_ms + device.backward_ms <= plain.load_ms
    latencies = {single_sample_latency(graph, replace(deployment, communication=c), split) for c in Communication}
    assert len(latencies) == 1


def test_overlap_by_hand() -> None:
    """Device 1 of three in a chain: computes 4 ms, receives 3 ms and sends 2 ms in each pass; backward computes 8."""
    graph = with_backward(chain((1, 4, 1), transfer_ms=(3.0, 2.0, 1.0)), backward_factor=2.0)
    split = complete_split(graph, Split((frozenset({1}), frozenset({2}), frozenset({3}))))
    expected = {
        # forward 4 + 3 + 2; backward: receives the 1 ms of node 3's twin, sends the 2 ms of its own
        Communication.SUM: (9.0, 11.0, 20.0),
        Communication.OVERLAPPED: (5.0, 8.0, 12.0),
        Communication.FULL_DUPLEX: (7.0, 10.0, 16.0),
    }
    for communication, (forward, backward, load) in expected.items():
        device = split_costs(graph, Deployment(3, communication=communication), split).devices[1]
        assert (device.forward_ms, device.backward_ms, device.load_ms) == (forward, backward, load)


@given(placements(), st.sampled_from(Communication), st.integers(1, 3))
def test_replicas_share_the_work_and_sync_their_gradients(case: Case, communication: Communication, r: int) -> None:
    graph, deployment, split = case
    deployment = replace(deployment, communication=communication, replication=Replication(3, 0.5))
    plain = split_costs(graph, deployment, split)
    on_many = replace(deployment, num_accelerators=3 * deployment.num_accelerators)
    costs = split_costs(graph, on_many, replace(split, replicas=(r,) * len(split.accelerators)))
    if r == 1:
        assert costs.devices[: deployment.num_accelerators] == plain.devices[: deployment.num_accelerators]
    for d, members in enumerate(split.accelerators):
        device = costs.devices[d]
        weights = sum(graph.node_by_id[v].memory_bytes for v in members) if graph.is_training else 0.0
        assert device.replicas == (r if members else 1)
        assert device.sync_ms == pytest.approx(2 * (r - 1) / r * weights / 0.5)
        assert device.load_ms == pytest.approx(plain.devices[d].load_ms / r + device.sync_ms)
        assert device.memory_bytes == plain.devices[d].memory_bytes
    assert costs.devices[-1].replicas == 1 or not deployment.num_cpus


def test_replicas_by_hand() -> None:
    """Training chain of two nodes; the first stage runs on three accelerators and holds 60 bytes of weights."""
    graph = with_backward(chain((3, 5), transfer_ms=1.0), backward_factor=2.0)
    nodes = tuple(replace(node, parameter_bytes=0.0 if node.is_backward else 60.0) for node in graph.nodes)
    graph = DnnGraph(nodes, graph.edges)
    split = complete_split(graph, Split((frozenset({1}), frozenset({2})), (), (3, 1)))
    first, second, cpu = split_costs(graph, Deployment(4, 1, replication=Replication(3, 10.0)), split).devices
    # 3 + 6 of compute, 1 sent forwards, 1 received backwards; 2 x 2/3 x 60 bytes at 10 bytes a ms
    assert first.load_ms == pytest.approx(11 / 3 + 8)
    assert first.sync_ms == pytest.approx(8)
    assert second.load_ms == 17.0
    assert (cpu.device, cpu.load_ms, cpu.replicas) == (2, 0.0, 1)
    inference = chain((3, 5), transfer_ms=1.0)
    split = Split((frozenset({1}), frozenset({2})), (), (2, 1))
    assert [d.load_ms for d in split_costs(inference, Deployment(3), split).devices] == [2.0, 6.0]


def test_replicas_take_the_bandwidth_of_the_graph_or_ask_for_one() -> None:
    graph = with_backward(chain((3, 5), transfer_ms=1.0))
    split = complete_split(graph, Split((frozenset({1}), frozenset({2})), (), (2, 1)))
    with pytest.raises(DeploymentError, match="no one bandwidth; give one for the replicas"):
        split_costs(graph, Deployment(3, replication=Replication(2)), split)
    known = DnnGraph(graph.nodes, tuple(Edge(e.source, e.target, 20.0) for e in graph.edges))
    assert split_costs(known, Deployment(3, replication=Replication(2)), split).devices[0].sync_ms == pytest.approx(0.1)
