"""What would help: every change keeps old plans valid, and a gain is called what is proven of it."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.analysis.what_if import (
    Change,
    Gain,
    carried_over,
    changes,
    enough_memory,
    first_that_helps,
    gain,
    renumbered,
    verdict,
    without_restriction,
)
from solvers.exporters.frameworks import Framework, expressible_graph
from solvers.model.costs import Objective, objective_value
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import PROOF_TOLERANCE, SolveResult, SolveStatus
from solvers.model.split import Family, Split, check_split
from solvers.quantities import binary_size
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.graphs import (
    chain,
    class_deployments,
    convex_witness,
    random_dag,
    small_graphs,
    training_chain,
    with_class_times,
)
from tests.support.layer_stacks import random_stack
from tests.support.reference import best_value


def solved(change: Change, objective: Objective = Objective.THROUGHPUT) -> SolveResult:
    return solve(change.graph, change.deployment, objective=objective, family=change.family, method=change.method)


def by_key(graph: DnnGraph, deployment: Deployment, objective: Objective = Objective.THROUGHPUT) -> dict[str, Change]:
    return {c.key: c for c in changes(graph, deployment, objective, Family.CHAIN, "auto")}


@examples(40, deadline=None)
@given(small_graphs(max_nodes=4))
def test_no_change_hurts_the_best_plan(case: tuple[DnnGraph, Deployment]) -> None:
    graph, deployment = case
    base = solve(graph, deployment)
    if base.split is None:
        return
    for change in changes(graph, deployment, Objective.THROUGHPUT, Family.CHAIN, "dp"):
        split = base.split.on(change.deployment)
        assert check_split(change.graph, change.deployment, split) == ()
        value = objective_value(change.graph, change.deployment, split, Objective.THROUGHPUT)
        assert value is not None
        assert base.value_ms is not None
        assert value <= base.value_ms * (1 + 1e-12), change.key
        if change.useless:
            gained = gain(base, solved(change))
            assert gained.cannot_help, change.key


@examples(30, deadline=None)
@given(small_graphs(max_nodes=4), class_deployments(), st.integers(0, 10**6))
def test_no_change_of_a_class_hurts_the_best_plan(
    case: tuple[DnnGraph, Deployment], deployment: Deployment, seed: int
) -> None:
    graph = with_class_times(case[0], seed)
    base = solve(graph, deployment)
    if base.split is None:
        return
    for change in changes(graph, deployment, Objective.THROUGHPUT, Family.CHAIN, "dp"):
        split = carried_over(base.split, deployment, change.deployment)
        assert check_split(change.graph, change.deployment, split) == ()
        value = objective_value(change.graph, change.deployment, split, Objective.THROUGHPUT)
        assert value is not None
        assert base.value_ms is not None
        assert value <= base.value_ms * (1 + 1e-12), change.key
        if change.useless:
            assert gain(base, solved(change)).cannot_help, change.key


def test_each_class_is_asked_about_by_itself() -> None:
    graph = chain((8, 2), transfer_ms=1.0)
    big, small = DeviceClass("big", 1, speed=4.0, memory_bytes=1.0), DeviceClass("small", 1, memory_bytes=2.0)
    deployment = Deployment.of_classes((big, small))
    base = solve(graph, deployment)  # {1} on big: 2 + 1, {2} on small: 2 + 1
    found = by_key(graph, deployment)
    hardware = [key for key in found if key.partition(" ")[0] in ("accelerator", "speed", "links", "memory", "cpu")]
    assert hardware == [
        *(f"{what} {i}" for what in ("accelerator", "speed", "links", "memory") for i in (0, 1)),
        "cpu",
    ]
    gained = {key: gain(base, solved(change)) for key, change in found.items()}
    assert base.value_ms == 3
    assert found["accelerator 0"].label == "One more big"
    assert found["memory 1"].useless == "all nodes together take 2 B"
    assert gained["memory 1"].cannot_help
    assert gained["no limit"].value_ms == 2.5  # both on big
    assert gained["accelerator 0"].cannot_help  # what {1} takes on the other big one is the limit
    assert gained["links 0"].cannot_help  # small still pays a whole transfer
    assert found["speed 0"].label == "big 10 % faster"


def test_times_of_a_class_get_faster_with_it() -> None:
    node = Node(1, 8.0, 9.0, class_ms=(("big", 2.0), ("small", 7.0)))
    deployment = Deployment.of_classes((DeviceClass("big", 1), DeviceClass("small", 0)))
    change = by_key(DnnGraph((node,), ()), deployment)["speed 0"]
    assert dict(change.graph.nodes[0].class_ms) == {"big": pytest.approx(2 / 1.1), "small": 7.0}
    assert change.deployment.classes[0].speed == pytest.approx(1.1)
    assert "speed 1" not in by_key(DnnGraph((node,), ()), deployment)


def test_a_split_is_carried_over_to_more_devices_of_a_class() -> None:
    def cluster(a: int, b: int, cpus: int) -> Deployment:
        return Deployment.of_classes((DeviceClass("A", a), DeviceClass("B", b)), cpus)

    one, two, three, four = (frozenset({v}) for v in (1, 2, 3, 4))
    nobody = frozenset[int]()
    split = Split((one, two, three), (four,))
    assert carried_over(split, cluster(2, 1, 1), cluster(3, 1, 1)) == Split((one, two, nobody, three), (four,))
    assert carried_over(split, cluster(2, 1, 1), cluster(2, 2, 1)) == Split((one, two, three, nobody), (four,))
    assert carried_over(split, cluster(2, 1, 1), cluster(3, 2, 2)) == Split(
        (one, two, nobody, three, nobody), (four, nobody)
    )
    replicated = Split((one, three), (), (2, 1))
    assert carried_over(replicated, cluster(2, 1, 0), cluster(3, 1, 0)) == Split((one, nobody, three), (), (2, 1, 1))
    moved = [renumbered(d, cluster(2, 1, 1), cluster(3, 2, 2)) for d in range(4)]
    assert moved == [0, 1, 3, 5]


def test_gains_of_known_changes() -> None:
    graph = chain((3, 3), transfer_ms=1.0)
    base = solve(graph, Deployment(2))  # {1} {2}: 3 + 1
    found = by_key(graph, Deployment(2))
    gained = {key: gain(base, solved(change)) for key, change in found.items()}
    assert base.value_ms == 4
    assert (gained["links"].value_ms, gained["links"].saved_share) == (3.5, 0.125)
    assert gained["speed"].value_ms == pytest.approx(3 / 1.1 + 1)
    assert gained["overlap"].value_ms == 3
    assert gained["replicas"].value_ms == 3  # both on each accelerator, every other sample
    assert gained["accelerator"].cannot_help  # two nodes cannot use three accelerators better
    assert gained["free"].cannot_help
    assert verdict(found["links"], gained["links"]) == "proven"
    assert verdict(found["accelerator"], gained["accelerator"]) == "cannot help, proven"


def test_free_splits_may_beat_chains() -> None:
    deployment = Deployment(2)
    base = solve(convex_witness(), deployment)
    gained = gain(base, solved(by_key(convex_witness(), deployment)["free"]))
    assert (gained.value_ms, gained.saved_share, gained.is_exact) == (4.0, 0.2, True)


def test_free_transfers_and_roomy_memory_need_no_solve() -> None:
    found = by_key(chain((1, 2), transfer_ms=0), Deployment(2, 0, memory_bytes=2.0))
    assert found["links"].useless == "transfers take no time"
    assert found["memory"].useless == "all nodes together take 2 B"
    assert "no limit" not in found


def test_memory_from_which_on_more_changes_nothing() -> None:
    graph, deployment = chain((2, 2, 2), transfer_ms=5.0), Deployment(3, 0, memory_bytes=1.0)
    change = by_key(graph, deployment)["no limit"]
    result = solved(change)
    enough = enough_memory(graph, change.deployment, result)
    assert (result.value_ms, enough) == (6.0, 3.0)
    assert solve(graph, replace(deployment, memory_bytes=enough)).value_ms == result.value_ms


@pytest.mark.parametrize("seed", range(30))
def test_memory_that_is_said_to_be_enough_is_as_it_is_written(seed: int) -> None:
    """Sizes of many digits: rounded to nearest, every second amount would be too little for its plan."""
    graph = random_dag(seed, 5)
    graph = graph.with_nodes(
        tuple(replace(v, memory_bytes=1234567.0 + 98765.0 * v.id * (seed + 1)) for v in graph.nodes)
    )
    deployment = Deployment(2, 1, memory_bytes=1.3e6)
    change = by_key(graph, deployment)["no limit"]
    result = solved(change)
    enough = enough_memory(graph, change.deployment, result)
    assert enough is not None
    again = solve(graph, replace(deployment, memory_bytes=written_bytes(binary_size(enough))))
    assert again.value_ms == pytest.approx(result.value_ms)
    label = by_key(graph, deployment)["memory"]
    assert label.deployment.memory_bytes == pytest.approx(written_bytes(label.label), rel=1e-12)


def written_bytes(text: str) -> float:
    found = re.search(r"([\d.,]+) ([KMG]iB|B)\b", text)
    assert found is not None, text
    return float(found[1].replace(",", "")) * {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[found[2]]


@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize("seed", range(12))
def test_what_is_said_of_each_change_holds_against_all_plans(seed: int, family: Family) -> None:
    """Memory is tight on every second graph, a node needs a CPU on every third, blocks are equal on others."""
    graph = random_dag(seed, 4)
    if seed % 4 == 3:
        graph = graph.with_nodes(
            tuple(replace(v, accelerator_ms=2.0, cpu_ms=5.0, memory_bytes=1.0) for v in graph.nodes)
        )
    if seed % 3 == 0:
        graph = graph.with_nodes((replace(graph.nodes[0], runs_on_accelerator=False), *graph.nodes[1:]))
    total = sum(node.memory_bytes for node in graph.nodes)
    deployment = Deployment(2, 1, memory_bytes=total * (0.4 if seed % 2 else 1.0) or None)
    base = solve(graph, deployment, family=family)
    before = best_value(graph, deployment, family, Objective.THROUGHPUT)
    assert base.value_ms == (None if before is None else pytest.approx(before))
    for change in changes(graph, deployment, Objective.THROUGHPUT, family, "auto"):
        if change.deployment.replication is not None or change.deployment.communication is not deployment.communication:
            continue
        gained = gain(base, solved(change))
        after = best_value(change.graph, change.deployment, change.family, Objective.THROUGHPUT)
        said = verdict(change, gained)
        if before is None:
            assert said == ("cannot help, proven" if after is None else "a plan becomes possible"), change.label
            continue
        assert after is not None
        saved = (before - after) / before
        assert said == ("proven" if saved > PROOF_TOLERANCE else "cannot help, proven"), change.label
        if said == "proven":
            assert gained.saved_share == pytest.approx(saved)
        if change.useless:
            assert saved <= PROOF_TOLERANCE, change.useless


def test_the_change_that_helps_most_is_called_so_only_where_no_other_can_help_more() -> None:
    first, less = Gain(3.0, 0.25, 0.25), Gain(3.5, 0.125, 0.125)
    open_, unknown = Gain(4.0, 0.0, 0.5), Gain(None, None, None)
    said = "A would help most: 25 % less time, 3 ms."
    assert first_that_helps("A", first, (less,), is_over=True) == said
    for other in (open_, unknown, None):
        found = first_that_helps("A", first, (less, other), is_over=True)
        assert found == "A would help most, as far as was found: 25 % less time, 3 ms."
    assert first_that_helps("A", first, (None,), is_over=False) == "A would help most so far: 25 % less time, 3 ms."


def test_what_was_infeasible_becomes_possible_or_stays_so() -> None:
    graph, deployment = chain((2, 2, 2), transfer_ms=5.0), Deployment(2, 0, memory_bytes=1.0)
    base = solve(graph, deployment)
    found = by_key(graph, deployment)
    assert base.status is SolveStatus.INFEASIBLE
    possible, still = gain(base, solved(found["accelerator"])), gain(base, solved(found["memory"]))
    assert possible.helps
    assert verdict(found["accelerator"], possible) == "a plan becomes possible"
    assert still.cannot_help
    assert verdict(found["memory"], still) == "cannot help, proven"


def test_a_gain_without_a_proof_says_how_much_may_be_left() -> None:
    graph = chain((3, 3))
    base = solve(graph, Deployment(2))
    change = by_key(graph, Deployment(2))["accelerator"]
    open_ = replace(solved(change), status=SolveStatus.FEASIBLE, lower_bound_ms=2.0, value_ms=4.0)
    assert verdict(change, gain(base, open_)) == "no gain found; at most 50 % possible"
    better = replace(open_, value_ms=3.0)
    assert gain(base, better).saved_share == 0.25
    assert verdict(change, gain(base, better)) == "at most 50 % possible"
    nothing = replace(open_, status=SolveStatus.UNKNOWN, split=None, value_ms=None, lower_bound_ms=None)
    assert verdict(change, gain(base, nothing)) == "no plan found in time"


def test_a_graph_that_takes_no_time_gains_nothing() -> None:
    graph = chain((0, 0), transfer_ms=0)
    base = solve(graph, Deployment(1))
    assert gain(base, solved(by_key(graph, Deployment(1))["accelerator"])).cannot_help


def test_latency_asks_for_subgraphs_and_nothing_of_pipelines() -> None:
    keys = set(by_key(chain((1, 2)), Deployment(2), Objective.LATENCY))
    assert keys == {"accelerator", "speed", "links", "cpu", "subgraphs"}


def test_baselines_are_asked_about_hardware_only() -> None:
    asked = changes(chain((1, 2)), Deployment(2), Objective.THROUGHPUT, Family.FREE, "pipedream")
    assert {change.method for change in asked} == {"pipedream"}
    assert {change.key for change in asked} == {"accelerator", "speed", "links", "cpu"}


def test_training_replicas_need_a_known_bandwidth() -> None:
    assert "replicas" not in by_key(training_chain((1, 1), (1, 1)), Deployment(2))
    assert "replicas" in by_key(chain((1, 1)), Deployment(2))


def test_the_restriction_to_a_framework_is_taken_back() -> None:
    own = random_stack(8, 5)
    restricted = expressible_graph(own, Framework.MEGATRON)
    change = without_restriction(restricted, own, Deployment(3), Family.CHAIN, "auto")
    assert change is not None
    assert change.graph == own
    assert without_restriction(own, own, Deployment(3), Family.CHAIN, "auto") is None


def test_what_nodes_take_is_in_the_unit_of_the_memory_it_is_compared_with() -> None:
    graph = DnnGraph((Node(1, 1.0, 9.0, 2.0**29), Node(2, 1.0, 9.0)), (Edge(1, 2, 1.0),))
    found = by_key(graph, Deployment(2, 0, 2.0**31))
    assert found["memory"].useless == "all nodes together take 0.5 GiB"
