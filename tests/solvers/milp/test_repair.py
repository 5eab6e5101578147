"""Repairs: valid, and of as few nodes as brute force needs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.milp.repair import repair
from solvers.milp.repair_records import Repair
from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment, InFlight, Replication, TrainingMemory
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Family, Split, check_split
from solvers.problem.pins import NO_PINS, Pins
from tests.support.examples import examples
from tests.support.graphs import chain, dag, random_split, training_chain
from tests.support.pinned_plans import honours, pinned
from tests.support.reference import all_splits


def moved_between(before: Split, after: Split) -> int:
    device_of = before.device_of()
    return sum(d != device_of[v] for v, d in after.device_of().items())


@pytest.mark.parametrize("family", list(Family))
@given(pinned(), st.integers(0, 50), st.data())
@examples(50, deadline=None)
def test_a_repair_is_valid_and_moves_as_few_nodes_as_any(
    family: Family, drawn: tuple[DnnGraph, Deployment, Pins], seed: int, data: st.DataObject
) -> None:
    graph, deployment, pins = drawn
    device_of = random_split(graph, deployment, seed).device_of()
    # Break colocation and support as well.
    for v in data.draw(st.lists(st.sampled_from(sorted(device_of)), max_size=2)):
        device_of[v] = data.draw(st.integers(0, deployment.num_devices - 1))
    before = Split.from_device_of(device_of, deployment)
    valid = [
        split
        for split in all_splits(graph, deployment)
        if honours(pins, split) and not check_split(graph, deployment, split, family)
    ]
    answer = repair(graph, deployment, before, family=family, pins=pins)
    if not valid:
        assert answer.split is None
        assert answer.is_impossible
        assert answer.message.startswith("No repair exists")
        return
    assert answer.split is not None
    assert honours(pins, answer.split)
    assert not check_split(graph, deployment, answer.split, family)
    fewest = min(moved_between(before, split) for split in valid)
    assert (len(answer.moved), answer.is_least) == (fewest, True)
    assert set(answer.moved) == {v for v, d in answer.split.device_of().items() if d != device_of[v]}
    least = min(
        split_costs(graph, deployment, split).max_load_ms for split in valid if moved_between(before, split) == fewest
    )
    if answer.moved:
        assert split_costs(graph, deployment, answer.split).max_load_ms <= least * 1.001 + 1e-9


def test_what_is_valid_stays_as_it_is() -> None:
    graph = chain((1, 1))
    split = Split((frozenset({1}), frozenset({2})))
    answer = repair(graph, Deployment(2), split, family=Family.CHAIN)
    assert (answer.split, answer.moved, answer.message) == (
        split,
        (),
        "There is nothing to repair: the plan breaks no rule.",
    )


def test_too_much_memory_is_moved_to_where_there_is_room_and_load_is_least() -> None:
    graph = dag((1, 1, 5), (), memory_bytes=1.0)
    split = Split((frozenset({1, 2, 3}), frozenset(), frozenset()))
    answer = repair(graph, Deployment(3, memory_bytes=2.0), split)
    assert answer.moved == (3,)  # the largest load is then 5 ms, not 6 ms
    assert answer.message.startswith("Repaired: moved node 3 from Accelerator 1 to Accelerator ")
    assert answer.message.endswith("; no change of fewer nodes is enough.")


def test_pins_are_respected_or_named() -> None:
    graph = dag((1, 1), (), memory_bytes=2.0**30)
    split = Split((frozenset({1, 2}), frozenset()))
    deployment = Deployment(2, memory_bytes=1.5 * 2**30)
    answer = repair(graph, deployment, split, pins=Pins(((1, 0),)))
    assert answer.moved == (2,)
    answer = repair(graph, deployment, split, pins=Pins(((1, 0), (2, 0))))
    assert answer.split is None
    assert answer.message.startswith("No repair exists. Accelerator 1 cannot hold what is pinned to it")


def test_a_chain_that_goes_back_and_forth_is_mended() -> None:
    graph = chain((1, 1, 1))
    split = Split((frozenset({1, 3}), frozenset({2})))
    answer = repair(graph, Deployment(2), split, family=Family.CHAIN)
    assert len(answer.moved) == 1
    assert answer.split is not None
    assert not check_split(graph, Deployment(2), answer.split, Family.CHAIN)
    assert repair(graph, Deployment(2), split, family=Family.FREE).moved == ()


def test_a_node_for_cpus_goes_to_a_cpu() -> None:
    graph = DnnGraph((Node(1, 1.0, 1.0, runs_on_accelerator=False), Node(2, 1.0, 1.0)), (Edge(1, 2),))
    split = Split((frozenset({1, 2}),), (frozenset(),))
    answer = repair(graph, Deployment(1, 1), split)
    assert answer.split == Split((frozenset({2}),), (frozenset({1}),))
    assert repair(graph, Deployment(2), Split((frozenset({1, 2}), frozenset()))).is_impossible


def test_what_repairs_cannot_count_is_said() -> None:
    graph = training_chain((1, 1), (1, 1))
    graph = DnnGraph(
        tuple(replace(node, memory_bytes=2.0, parameter_bytes=1.0, activation_bytes=1.0) for node in graph.nodes),
        graph.edges,
    )
    split = Split((frozenset(graph.node_by_id), frozenset()))
    memory = TrainingMemory(InFlight.GPIPE, 4)
    answer = repair(graph, Deployment(2, 0, 5.0, training_memory=memory), split)
    assert (answer.split, answer.is_impossible) == (None, False)
    assert "micro-batches in flight" in answer.message
    replicated = Split((frozenset(graph.node_by_id),), (), (2,))
    deployment = Deployment(2, 0, 5.0, replication=Replication(2, 1e6))
    assert "replicas" in repair(graph, deployment, replicated).message


def test_a_pinned_node_that_nothing_depends_on_stays_where_it_is() -> None:
    # Node 1 has no bytes and shares no tensor: it is in no row of the program.
    graph = dag((0.0, 1.0, 1.0), (), transfer_ms=0.0, memory_bytes=(0.0, 2.0, 2.0))
    split = Split((frozenset({1, 2, 3}), frozenset()))
    answer = repair(graph, Deployment(2, 0, 3.0), split, pins=Pins(((1, 0),)))
    assert answer.split is not None
    assert answer.moved in ((2,), (3,))
    assert answer.is_least


def test_without_time_the_known_plan_is_the_answer_if_it_is_valid() -> None:
    graph = dag((1.0,) * 200, [(v, v + 1) for v in range(1, 200)], memory_bytes=1.0)
    ids = sorted(graph.node_by_id)
    deployment = Deployment(4, 0, 60.0)
    order = graph.topological_order
    known = Split(tuple(frozenset(order[i : i + 50]) for i in range(0, 200, 50)))
    broken = Split((frozenset(ids[::2]), frozenset(ids[1::2]), frozenset(), frozenset()))
    assert check_split(graph, deployment, broken, Family.CHAIN)

    def repaired(known: Split | None, pins: Pins = NO_PINS) -> Repair:
        return repair(graph, deployment, broken, family=Family.CHAIN, pins=pins, known=known, time_limit_s=0.0)

    assert repaired(None).split is None
    answer = repaired(known)
    assert answer.split == known
    assert len(answer.moved) == moved_between(broken, known)
    assert not answer.is_least
    assert answer.message.endswith("; fewer might do: there was no time to prove it.")
    # What breaks a rule or a pin is no answer.
    assert repaired(broken).split is None
    assert repaired(known, Pins(((order[0], 3),))).split is None
