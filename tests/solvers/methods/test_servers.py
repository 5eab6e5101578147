"""Servers with faster links inside: exact costs, and plans with a bound that holds."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.analysis.latency_path import latency_path
from solvers.formats.graph_json import graph_document, parse_graph
from solvers.model.costs import Objective, objective_value, single_sample_latency, split_costs
from solvers.model.deployment import Communication, Deployment, Replication
from solvers.model.errors import DeploymentError
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import SolveStatus
from solvers.model.split import Family, Split, check_split
from solvers.schedule.records import ScheduleKind
from solvers.schedule.simulate import simulate
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.graphs import (
    chain,
    dag,
    random_classes,
    random_dag,
    random_split,
    random_tensors,
    random_training_graph,
)
from tests.support.reference import best_latency, best_value, tensors


def on_servers(deployment: Deployment, per_server: int = 2, speed: float = 4.0) -> Deployment:
    return replace(deployment, accelerators_per_server=per_server, server_link_speed=speed)


def load_by_definition(graph: DnnGraph, deployment: Deployment, split: Split, d: int) -> float:
    """The load of an accelerator, tensor by tensor."""
    per_server, device_of = deployment.accelerators_per_server or 1, split.device_of()
    load = sum(deployment.accelerator_ms(graph.node_by_id[v], d) for v in split.accelerators[d])
    for u, targets, ms in tensors(graph):
        readers = {device_of[v] for v in targets} - {device_of[u]}
        partners = readers if device_of[u] == d else {device_of[u]} if d in readers else set()
        if partners:
            near = all(e < deployment.num_accelerators and e // per_server == d // per_server for e in partners)
            factor = deployment.server_link_speed if near else 1.0
            load += ms / deployment.link_speed_of(d) / factor
    return load


@given(st.integers(0, 10_000))
@examples(60)
def test_loads_are_what_the_definition_says(seed: int) -> None:
    graph = random_dag(seed, 7) if seed % 3 else random_tensors(random_dag(seed, 7), seed)
    plain = Deployment(4, 1) if seed % 2 else random_classes(seed, 1)
    deployment = on_servers(plain)
    split = random_split(graph, deployment, seed)
    costs = split_costs(graph, deployment, split)
    for d in range(deployment.num_accelerators):
        assert costs.devices[d].load_ms == pytest.approx(load_by_definition(graph, deployment, split, d))


@given(st.integers(0, 10_000), st.sampled_from(Communication), st.sampled_from(Objective))
@examples(60)
def test_the_limits_are_links_that_are_alike(seed: int, communication: Communication, objective: Objective) -> None:
    graph = random_training_graph(seed, 3) if objective is Objective.GPIPE else random_dag(seed, 6)
    flat = Deployment(4, 0, communication=communication)
    split = random_split(graph, flat, seed)
    slow = objective_value(graph, flat, split, objective)
    assert objective_value(graph, on_servers(flat, 1), split, objective) == slow
    assert objective_value(graph, on_servers(flat, 2, 1.0), split, objective) == slow
    together = objective_value(graph, on_servers(flat, 4), split, objective)
    fast = objective_value(graph.with_bandwidth_factor(4.0), flat, split, objective)
    assert (together is None) == (fast is None)
    between = objective_value(graph, on_servers(flat), split, objective)
    if together is not None and fast is not None and between is not None and slow is not None:
        assert together == pytest.approx(fast)
        assert fast <= between * (1 + 1e-12)
        assert between <= slow * (1 + 1e-12)


@given(st.integers(0, 10_000))
@examples(40)
def test_schedules_and_paths_take_the_same_transfers(seed: int) -> None:
    graph, deployment = random_dag(seed, 6), on_servers(Deployment(4, 1))
    split = random_split(graph, deployment, seed)
    latency, path = single_sample_latency(graph, deployment, split), latency_path(graph, deployment, split)
    if latency is not None and path is not None:
        assert path.steps[-1].end_ms == pytest.approx(latency)
        run = simulate(graph, deployment, split, ScheduleKind.SINGLE_STREAM, 1)
        assert run.makespan_ms <= latency * (1 + 1e-9)
    run = simulate(graph, deployment, split, ScheduleKind.INFERENCE, 3)
    for device in split_costs(graph, deployment, split).devices[:4]:
        busy = sum(slot.end_ms - slot.start_ms for slot in run.slots if slot.device == device.device)
        assert busy == pytest.approx(3 * device.load_ms, abs=1e-9)


@pytest.mark.parametrize("family", [Family.CHAIN, Family.FREE])
@given(seed=st.integers(0, 10_000))
@examples(12)
def test_a_plan_is_judged_as_it_is_and_its_bound_holds(family: Family, seed: int) -> None:
    graph = random_dag(seed, 5)
    deployment = on_servers(Deployment(3, 0, 8.0))
    best = best_value(graph, deployment, family, Objective.THROUGHPUT)
    result = solve(graph, deployment, family=family, time_limit_s=20)
    if best is None:
        assert result.status is SolveStatus.INFEASIBLE
        return
    assert result.split is not None
    assert result.value_ms == objective_value(graph, deployment, result.split, Objective.THROUGHPUT)
    assert not check_split(graph, deployment, result.split, family)
    assert result.lower_bound_ms is not None
    assert result.lower_bound_ms <= best * (1 + 1e-6) + 1e-9
    assert result.value_ms >= best * (1 - 1e-9)
    if result.status is SolveStatus.OPTIMAL:
        assert result.value_ms == pytest.approx(best, rel=2e-6, abs=1e-9)


def test_neighbours_that_talk_much_share_a_server() -> None:
    """Four stages of 4 ms; the dear tensors are the first and the last, and links inside are 8 times as fast."""
    graph = chain((4.0, 4.0, 4.0, 4.0), transfer_ms=(8.0, 0.0, 8.0, 0.0))
    result = solve(graph, on_servers(Deployment(4), 2, 8.0))
    assert result.value_ms == 5.0
    assert result.status is SolveStatus.OPTIMAL
    apart = Split(tuple(frozenset({v}) for v in (1, 3, 2, 4)))
    judged = solve(graph, on_servers(Deployment(4), 2, 8.0), method="expert", start=apart)
    assert judged.value_ms == 12.0


def test_a_file_keeps_servers() -> None:
    graph, deployment = dag((1, 2), ((1, 2),), transfer_ms=(1, 0)), on_servers(Deployment(4, 1, 5.0))
    document = graph_document(graph, deployment)
    assert (document["acceleratorsPerServer"], document["serverLinkSpeed"]) == (2, 4.0)
    assert parse_graph(json.dumps(document))[1] == deployment


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"server_link_speed": 0.5}, "give a factor from 1"),
        ({"accelerators_per_server": 0}, "0 accelerators per server"),
        ({"accelerators_per_server": 2, "replication": Replication(2)}, "Replicas are not modelled within servers"),
    ],
)
def test_servers_that_make_no_sense_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(DeploymentError, match=message):
        replace(Deployment(4), **change)  # type: ignore[arg-type]


@pytest.mark.parametrize("per_server", [1, 2])
def test_latency_on_servers_is_at_most_what_is_said_to_be_optimal(per_server: int) -> None:
    """An accelerator alone in its server has no fast link, not even from one of its subgraphs to the next."""
    nodes = Node(0, 1.0, 100.0, transfer_ms=8.0), Node(1, 0.0, 1.0, runs_on_accelerator=False), Node(2, 1.0, 100.0)
    graph = DnnGraph(nodes, (Edge(0, 1), Edge(0, 2), Edge(1, 2)))
    deployment = on_servers(Deployment(2, 1, max_subgraphs=2), per_server, 8.0)
    best = best_latency(graph, deployment)
    result = solve(graph, deployment, objective=Objective.LATENCY)
    assert best is not None
    assert result.lower_bound_ms is not None
    assert result.lower_bound_ms <= best * (1 + 1e-9)
    if result.status is SolveStatus.OPTIMAL:
        assert result.value_ms == pytest.approx(best)
