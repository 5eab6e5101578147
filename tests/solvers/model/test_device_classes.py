"""Tests of accelerators in several classes: records, files, the evaluator, bounds, and what they have in common."""

import itertools
import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.analysis.explanation import explain
from solvers.analysis.explanation_text import explanation_text, plain_text
from solvers.analysis.latency_path import latency_path
from solvers.formats.graph_json import graph_document, parse_graph
from solvers.model.costs import Objective, objective_value, single_sample_latency, split_costs
from solvers.model.deployment import (
    MAX_CLASSES,
    MAX_DEVICES,
    Communication,
    Deployment,
    DeviceClass,
    InFlight,
    Replication,
    TrainingMemory,
)
from solvers.model.errors import DeploymentError, GraphError
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.memory import training_bytes
from solvers.model.split import Family, Split, check_split, device_memory_bytes, forward_edges
from solvers.problem.accelerator_kinds import (
    accelerator_kinds,
    with_identical_accelerators,
)
from solvers.problem.bounds import balance_bound, why_infeasible, work_bound
from solvers.problem.contraction import contract
from solvers.schedule.records import ScheduleKind
from solvers.schedule.simulate import simulate
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.graphs import (
    chain,
    dag,
    random_chain_split,
    random_classes,
    random_dag,
    random_split,
    random_training_graph,
    with_class_times,
)
from tests.support.reference import best_value, max_load_by_definition

MIXED = Deployment.of_classes(
    (DeviceClass("A100", 2, memory_bytes=80.0), DeviceClass("T4", 3, 0.25, 16.0, link_speed=0.5)), num_cpus=1
)


def test_accelerators_are_numbered_class_after_class() -> None:
    assert MIXED.num_accelerators == 5
    assert [MIXED.device_name(d) for d in range(6)] == ["A100 1", "A100 2", "T4 1", "T4 2", "T4 3", "CPU 1"]
    assert [MIXED.capacity_bytes(d) for d in range(6)] == [80.0, 80.0, 16.0, 16.0, 16.0, None]
    assert [MIXED.link_speed_of(d) for d in range(5)] == [1.0, 1.0, 0.5, 0.5, 0.5]
    node = Node(1, 2.0, 9.0)
    assert [MIXED.node_ms(node, d) for d in range(6)] == [2.0, 2.0, 8.0, 8.0, 8.0, 9.0]
    assert MIXED.largest_memory_bytes == 80.0
    assert Deployment.of_classes((*MIXED.classes, DeviceClass("L4", 1))).largest_memory_bytes is None
    assert Deployment.of_classes((DeviceClass("A", 0), DeviceClass("B", 1, memory_bytes=3.0))).capacity_bytes(0) == 3.0


def test_a_time_of_a_node_on_a_class_counts_before_the_speed() -> None:
    node = Node(1, 2.0, 9.0, class_ms=(("T4", 5.0), ("A100", 1.0)))
    assert node.class_ms == (("A100", 1.0), ("T4", 5.0))
    assert [MIXED.node_ms(node, d) for d in (0, 2, 5)] == [1.0, 5.0, 9.0]
    with pytest.raises(GraphError, match="two times on one class"):
        Node(1, 2.0, 9.0, class_ms=(("T4", 5.0), ("T4", 6.0)))
    with pytest.raises(GraphError, match="the time on T4 is -1"):
        Node(1, 2.0, 9.0, class_ms=(("T4", -1.0),))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "give it a name"),
        ({"name": "a\nb"}, "give it a name"),
        ({"name": "x" * 61}, "61 characters"),
        ({"name": "CPU"}, "CPUs are counted apart"),
        ({"count": -1}, "-1 devices"),
        ({"count": MAX_DEVICES + 1}, "devices; give a number"),
        ({"speed": 0.0}, "a speed of 0.0"),
        ({"speed": float("nan")}, "a speed of nan"),
        ({"link_speed": float("inf")}, "a link speed of inf"),
        ({"memory_bytes": -1.0}, "-1.0 bytes of memory"),
    ],
)
def test_a_class_that_makes_no_sense_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(DeploymentError, match=message):
        replace(DeviceClass("A", 1), **change)  # type: ignore[arg-type]


def test_classes_that_do_not_fit_together_are_refused() -> None:
    one = DeviceClass("A", 2)
    with pytest.raises(DeploymentError, match="Two device types are named A"):
        Deployment.of_classes((one, one))
    with pytest.raises(DeploymentError, match="count 2 accelerators and 3 are asked for"):
        Deployment(3, classes=(one,))
    with pytest.raises(DeploymentError, match="a memory of its own"):
        Deployment(2, memory_bytes=5.0, classes=(one,))
    with pytest.raises(DeploymentError, match="give up to"):
        Deployment.of_classes([DeviceClass(f"c{i}", 1) for i in range(MAX_CLASSES + 1)])
    with pytest.raises(DeploymentError, match="accelerators: give a number"):
        Deployment.of_classes([DeviceClass(f"c{i}", MAX_DEVICES) for i in range(2)])


def test_a_file_keeps_classes_and_times() -> None:
    graph = with_class_times(dag((1, 2, 3), ((1, 2), (2, 3)), transfer_ms=(1, 1, 0)), seed=1, name="T4")
    document = graph_document(graph, MIXED)
    assert document["maxFPGAs"] == 5
    assert document["deviceClasses"][0] == {"name": "A100", "count": 2, "memory": 80.0}
    assert document["deviceClasses"][1] == {
        "name": "T4",
        "count": 3,
        "speed": 0.25,
        "memory": 16.0,
        "linkSpeed": 0.5,
    }
    assert parse_graph(json.dumps(document)) == (replace(graph, name=""), MIXED)


def test_a_file_without_classes_is_as_it_was() -> None:
    graph = dag((1, 2), ((1, 2),))
    document = graph_document(graph, Deployment(2, 1, 5.0))
    assert set(document) == {"maxSizePerFPGA", "maxFPGAs", "maxCPUs", "nodes", "edges"}
    assert not any("classLatency" in node for node in document["nodes"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"deviceClasses": {}}, "'deviceClasses' is"),
        ({"deviceClasses": [3]}, r"deviceClasses\[0\] is not an object"),
        ({"deviceClasses": [{"count": 5}]}, "has no 'name'"),
        ({"deviceClasses": [{"name": "A"}]}, "'count' is missing"),
        ({"deviceClasses": [{"name": "A", "count": 5, "speed": "fast"}]}, "'speed' is"),
        ({"deviceClasses": [{"name": "A", "count": 5, "speed": 0}]}, "devices are not usable: Class A: a speed of 0"),
        ({"deviceClasses": [{"name": "A", "count": 4}]}, "count 4 accelerators and 5"),
        ({"maxSizePerFPGA": 5}, "a memory of its own"),
        ({"nodes": [{"id": 1, "classLatency": [1]}]}, "'classLatency' is"),
    ],
)
def test_a_file_with_classes_that_make_no_sense_is_refused(change: dict[str, object], message: str) -> None:
    document = {**graph_document(dag((1,), ()), MIXED), **change}
    for node in document["nodes"]:
        node.update({"supportedOnFpga": 1, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": 0, **node})
    with pytest.raises(GraphError, match=message):
        parse_graph(json.dumps(document))


def test_a_digest_tells_times_on_classes_apart() -> None:
    graph = dag((1, 2), ((1, 2),))
    timed = with_class_times(graph, seed=1)
    assert timed.digest != graph.digest


@given(st.integers(0, 10_000), st.booleans())
def test_loads_are_what_the_definition_says(seed: int, training: bool) -> None:
    graph = random_training_graph(seed, 3) if training else random_dag(seed, 6)
    graph = with_class_times(graph, seed)
    deployment = random_classes(seed, num_cpus=seed % 2)
    split = random_split(graph, deployment, seed)
    value = split_costs(graph, deployment, split).max_load_ms
    assert value == pytest.approx(max_load_by_definition(graph, deployment, split.device_of()), rel=1e-12)


@given(st.integers(0, 10_000), st.sampled_from(Communication))
def test_a_device_of_a_class_costs_what_it_would_among_identical_ones(seed: int, communication: Communication) -> None:
    """For every device: as if all accelerators were of its class, in every objective's parts."""
    graph = with_class_times(random_training_graph(seed, 3), seed)
    mixed = replace(random_classes(seed, num_cpus=1), communication=communication)
    split = random_split(graph, mixed, seed)
    costs = split_costs(graph, mixed, split)
    for d in range(mixed.num_accelerators):
        own = mixed.class_of(d)
        assert own is not None
        alike = Deployment.of_classes((replace(own, count=mixed.num_accelerators),), 1, communication=communication)
        plain_graph, plain = with_identical_accelerators(graph, alike)
        assert not plain.classes
        assert split_costs(graph, alike, split).devices[d] == costs.devices[d]
        assert split_costs(plain_graph, plain, split).devices[d] == costs.devices[d]


def test_latency_and_schedule_run_at_the_speed_of_each_device() -> None:
    graph = chain((2.0, 4.0), transfer_ms=1.0)
    deployment = Deployment.of_classes((DeviceClass("fast", 1, 2.0, link_speed=4.0), DeviceClass("slow", 1, 0.5)))
    split = Split((frozenset({1}), frozenset({2})))
    assert single_sample_latency(graph, deployment, split) == (1.0 + 0.25) + (1.0 + 8.0)
    assert split_costs(graph, deployment, split).max_load_ms == 9.0
    run = simulate(graph, deployment, split, ScheduleKind.INFERENCE, 8)
    assert run.period_ms == pytest.approx(9.0)
    run = simulate(graph, deployment, split, ScheduleKind.SINGLE_STREAM, 1)
    assert run.makespan_ms == pytest.approx(10.25)


@given(st.integers(0, 10_000))
def test_a_simulated_iteration_takes_the_loads_of_the_classes(seed: int) -> None:
    graph = with_class_times(random_training_graph(seed, 3), seed)
    deployment = random_classes(seed, limited=False)
    split = random_split(graph, deployment, seed)
    if check_split(graph, deployment, split, Family.CHAIN):
        return
    run = simulate(graph, deployment, split, ScheduleKind.GPIPE, 3)
    busy = {d.device: 3 * d.load_ms for d in split_costs(graph, deployment, split).devices}
    for d in range(deployment.num_accelerators):
        slots = sum(slot.end_ms - slot.start_ms for slot in run.slots if slot.device == d)
        assert slots == pytest.approx(busy[d], abs=1e-9)


@given(st.integers(0, 10_000))
@examples(50)
def test_the_critical_path_of_a_sample_is_as_long_as_its_latency(seed: int) -> None:
    graph = with_class_times(random_dag(seed, 6), seed)
    deployment = random_classes(seed, num_cpus=1)
    split = random_split(graph, deployment, seed)
    latency = single_sample_latency(graph, deployment, split)
    path = latency_path(graph, deployment, split)
    assert (path is None) == (latency is None)
    if path is not None and latency is not None:
        assert path.steps[-1].end_ms == pytest.approx(latency)


def test_an_explanation_has_the_times_of_the_class() -> None:
    graph = chain((2.0, 4.0), transfer_ms=0.0)
    deployment = Deployment.of_classes((DeviceClass("fast", 1, 2.0), DeviceClass("slow", 1, 0.5)))
    split = Split((frozenset({1}), frozenset({2})))
    explained = explain(graph, deployment, split, objective=Objective.LATENCY)
    text = plain_text(explanation_text(explained, graph))
    assert "slow 1" in text
    assert "8 ms" in text


def test_memory_is_that_of_the_class_and_named_so() -> None:
    graph = dag((1, 1), (), memory_bytes=(60.0, 20.0))
    tight = Split((frozenset(), frozenset(), frozenset({1}), frozenset({2})))
    broken = check_split(graph, MIXED, tight)
    assert [v.rule for v in broken] == ["memory", "memory"]
    assert broken[0].message.startswith("T4 1 is short by")
    assert not check_split(graph, MIXED, Split((frozenset({1}), frozenset({2}))))


def test_more_accelerators_than_there_are_is_a_broken_rule() -> None:
    graph = chain((1.0,) * 7)
    split = Split(tuple(frozenset({v}) for v in range(1, 8)))
    assert "device count" in {v.rule for v in check_split(graph, MIXED, split)}
    assert split_costs(graph, MIXED, split).devices[6].compute_ms == 4.0


def test_replicas_are_devices_of_one_class() -> None:
    graph = chain((1.0, 1.0))
    deployment = replace(MIXED, replication=Replication(3))
    over = Split((frozenset({1}), frozenset({2})), replicas=(3, 1))
    assert [v.rule for v in check_split(graph, deployment, over)] == ["replicas"]
    fits = Split((frozenset({1}), frozenset({2})), replicas=(2, 3))
    assert not check_split(graph, deployment, fits)
    costs = split_costs(graph, deployment, fits)
    assert [d.load_ms for d in costs.devices[:2]] == [(1.0 + 1.0) / 2, (4.0 + 2.0) / 3]
    assert fits.device_name(1, deployment) == "T4 1-3"
    assert over.device_name(0, deployment) == "A100 1 to T4 1"


def test_stages_with_more_after_them_go_to_devices_with_room_for_it() -> None:
    """Two branches on devices that wait for nothing of each other: the order that counts is the one that fits."""
    node = Node(1, 1.0, 9.0, memory_bytes=4.0, activation_bytes=4.0, parameter_bytes=0.0)
    backward = Node(3, 1.0, 9.0, is_backward=True, activation_bytes=0.0, parameter_bytes=0.0)
    graph = DnnGraph((node, replace(node, id=2), backward), (Edge(1, 3), Edge(2, 3)))
    small, large = DeviceClass("small", 1, memory_bytes=4.0), DeviceClass("large", 1, memory_bytes=8.0)
    memory = TrainingMemory(InFlight.ONE_F_ONE_B, 8)
    split = Split((frozenset({1}), frozenset({2})), (frozenset({3}),))
    for classes in ((small, large), (large, small)):
        deployment = Deployment.of_classes(classes, 1, training_memory=memory)
        assert device_memory_bytes(graph, deployment, split)[:2] == tuple(c.memory_bytes for c in classes)
        assert not check_split(graph, deployment, split)


@given(st.integers(0, 10_000))
def test_no_order_of_the_stages_fits_better_than_the_one_that_counts(seed: int) -> None:
    """All orders that data flow allows are tried."""
    graph = random_training_graph(seed, 4)
    rng = random.Random(seed)  # noqa: S311
    graph = DnnGraph(
        tuple(
            replace(node, memory_bytes=8.0, activation_bytes=float(rng.randrange(8)), parameter_bytes=1.0)
            for node in graph.nodes
        ),
        graph.edges,
    )
    schedule = TrainingMemory(rng.choice((InFlight.ONE_F_ONE_B, InFlight.PIPEDREAM)), 8)
    classes = [DeviceClass(name, 1, memory_bytes=float(rng.randrange(10, 60))) for name in "ABC"]
    deployment = Deployment.of_classes(classes, 1, training_memory=schedule)
    split = random_chain_split(graph, deployment, seed)
    used = [d for d, members in enumerate(split.devices) if members]
    device_of = split.device_of()
    ties = {(device_of[u], device_of[v]) for u, v in forward_edges(graph)}
    held = [training_bytes(graph, schedule, members) for members in split.devices]

    def fits(order: tuple[int, ...]) -> bool:
        return all(
            deployment.is_cpu(d)
            or held[d].on_stage(schedule, len(order) - 1 - i) <= (deployment.capacity_bytes(d) or 0.0)
            for i, d in enumerate(order)
        )

    allowed = [
        order for order in itertools.permutations(used) if all(order.index(a) <= order.index(b) for a, b in ties)
    ]
    fitting = any(map(fits, allowed))
    broken = {violation.rule for violation in check_split(graph, deployment, split)}
    assert ("memory" not in broken) == fitting


def test_classes_that_differ_in_nothing_that_matters_are_one_kind() -> None:
    graph = DnnGraph((Node(1, 2.0, 9.0, class_ms=(("B", 1.0),)), Node(2, 4.0, 9.0, class_ms=(("B", 2.0),))), ())
    classes = (DeviceClass("A", 1, 2.0), DeviceClass("C", 1), DeviceClass("B", 2), DeviceClass("none", 0, 3.0))
    kinds = accelerator_kinds(graph, Deployment.of_classes(classes))
    assert [kind.devices for kind in kinds] == [(0, 2, 3), (1,)]
    apart = Deployment.of_classes(classes, replication=Replication(2))
    assert [kind.devices for kind in accelerator_kinds(graph, apart)] == [(0,), (1,), (2, 3)]


@examples(30)
@given(st.integers(0, 10_000))
def test_bounds_hold_for_every_split(seed: int) -> None:
    graph = with_class_times(random_dag(seed, 4), seed)
    deployment = random_classes(seed, num_cpus=seed % 2)
    contraction = contract(graph, Family.FREE, deployment)
    best = best_value(graph, deployment, Family.FREE, Objective.THROUGHPUT)
    if best is None:
        return
    assert why_infeasible(graph, contraction, deployment) is None
    assert work_bound(contraction, deployment) <= best * (1 + 1e-12)


def test_the_bound_of_work_is_exact_where_all_nodes_prefer_alike() -> None:
    graph = dag((3.0, 1.0, 4.0, 1.0), ())
    contraction = contract(graph, Family.FREE, MIXED)
    assert balance_bound(contraction, replace(MIXED, num_cpus=0)) == pytest.approx(9.0 / (2 + 3 * 0.25))


def test_the_bound_of_work_gives_each_class_what_it_is_best_at() -> None:
    """Two classes, each ten times as fast at one half of the nodes: no device needs what it is bad at."""
    nodes = tuple(Node(v, 1.0, 99.0, class_ms=(("A", 1.0 if v % 2 else 10.0), ("B", 10.0 if v % 2 else 1.0)))
                  for v in range(40))  # fmt: skip
    deployment = Deployment.of_classes((DeviceClass("A", 1), DeviceClass("B", 1)))
    contraction = contract(DnnGraph(nodes, ()), Family.FREE, deployment)
    assert 0.98 * 20 <= work_bound(contraction, deployment) <= 20


def test_what_cannot_fit_is_said_in_sizes_of_the_classes() -> None:
    graph = dag((1, 1), (), memory_bytes=2.0**31)
    classes = (DeviceClass("A", 1, memory_bytes=2.0**31), DeviceClass("B", 2, memory_bytes=2.0**28))
    deployment = Deployment.of_classes(classes)
    reason = why_infeasible(graph, contract(graph, Family.FREE, deployment), deployment)
    assert reason == ("The graph needs 4 GiB, 1 × 2 GiB + 2 × 0.25 GiB available; add accelerators, memory or a CPU.")
    small = Deployment.of_classes(classes[1:])
    reason = why_infeasible(graph, contract(graph, Family.FREE, small), small)
    assert reason is not None
    assert "the largest accelerator has 0.25 GiB" in reason


@given(st.integers(0, 10_000), st.sampled_from(Objective))
def test_one_class_is_the_same_as_identical_accelerators(seed: int, objective: Objective) -> None:
    training = objective is Objective.GPIPE
    graph = with_class_times(random_training_graph(seed, 3) if training else random_dag(seed, 5), seed)
    rng = random.Random(seed)  # noqa: S311
    classes = (DeviceClass("B", 2, rng.choice((0.5, 3.0)), rng.choice((None, 9.0)), rng.choice((0.5, 3.0))),)
    deployment = Deployment.of_classes(classes, 1)
    plain_graph, plain = with_identical_accelerators(graph, deployment)
    split = random_split(graph, deployment, seed)
    assert objective_value(graph, deployment, split, objective) == objective_value(plain_graph, plain, split, objective)
    assert [v.rule for v in check_split(graph, deployment, split)] == [
        v.rule for v in check_split(plain_graph, plain, split)
    ]


METHODS_BY_OBJECTIVE = [
    (Objective.THROUGHPUT, "dp"),
    (Objective.THROUGHPUT, "ip"),
    (Objective.GPIPE, "dp"),
    (Objective.LATENCY, "ip"),
    (Objective.THROUGHPUT, "local_search"),
]


@pytest.mark.parametrize(("objective", "method"), METHODS_BY_OBJECTIVE)
def test_every_method_solves_one_class(objective: Objective, method: str) -> None:
    graph = random_training_graph(3, 3) if objective is Objective.GPIPE else random_dag(3, 5)
    deployment = Deployment.of_classes((DeviceClass("A", 1, 2.0), DeviceClass("B", 1, 2.0)), 1)
    result = solve(graph, deployment, objective=objective, method=method)
    assert result.split is not None
    assert result.value_ms == objective_value(graph, deployment, result.split, objective)
    plain_graph, plain = with_identical_accelerators(graph, deployment)
    assert result.value_ms == solve(plain_graph, plain, objective=objective, method=method).value_ms
