"""What is said of an edited plan: amounts of what it breaks, the family it left, its distance from the optimum."""

from dataclasses import replace

import pytest

from explorer.edits.assessment import assess, distance, lower_bound_ms
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family, Split
from tests.support.graphs import chain, convex_witness

GIB = 2.0**30


def heavy_chain() -> DnnGraph:
    graph = chain((1.0, 2.0, 3.0), 0.5)
    return DnnGraph(tuple(replace(node, memory_bytes=GIB) for node in graph.nodes), graph.edges)


def test_the_value_before_and_after_and_missing_memory() -> None:
    graph, deployment = heavy_chain(), Deployment(2, 0, 2.25 * GIB)
    before = Split((frozenset({1, 2}), frozenset({3})))
    after = Split((frozenset(), frozenset({1, 2, 3})))
    assessed = assess(graph, deployment, after, before=before)
    assert assessed.problems == ("Accelerator 2 short by 768 MiB",)
    assert not assessed.is_valid
    assert assessed.change == "3.5 ms → 6 ms"
    assert assess(graph, deployment, before).problems == ()


def test_broken_classes_name_their_nodes_and_devices() -> None:
    graph = chain((1.0, 1.0, 1.0))
    graph = DnnGraph(
        tuple(replace(node, colocation_class=4, name=f"layer {node.id}") for node in graph.nodes), graph.edges
    )
    assessed = assess(graph, Deployment(2), Split((frozenset({1, 2}), frozenset({3}))))
    assert assessed.problems == (
        "Colocation class 4 is spread: node 1 (layer 1) and node 2 (layer 2) on Accelerator 1, "
        "node 3 (layer 3) on Accelerator 2",
    )


def test_nodes_that_cannot_run_where_they_are_are_named() -> None:
    graph = DnnGraph((Node(1, 1.0, 1.0, runs_on_accelerator=False), Node(2, 1.0, 1.0)), (Edge(1, 2),))
    assessed = assess(graph, Deployment(1, 1), Split((frozenset({1, 2}),), (frozenset(),)))
    assert assessed.problems == ("Node 1 runs on CPUs only and is on Accelerator 1",)


def test_a_chain_that_becomes_free_is_told_with_the_way_its_data_goes() -> None:
    graph = chain((1.0, 1.0, 1.0))
    split = Split((frozenset({1, 3}), frozenset({2})))
    assessed = assess(graph, Deployment(2), split, asked=Family.CHAIN)
    assert assessed.family is Family.FREE
    assert assessed.is_valid
    assert assessed.family_note.startswith("No longer a pipeline split but a non-contiguous split: ")
    assert "(Accelerator 1 → Accelerator 2 → Accelerator 1)." in assessed.family_note
    assert assess(graph, Deployment(2), split, asked=Family.FREE).family_note == ""


def test_a_chain_that_becomes_convex_is_told_so() -> None:
    split = Split((frozenset({1, 4}), frozenset({2, 3})))
    assessed = assess(convex_witness(), Deployment(2), split, asked=Family.CHAIN)
    assert assessed.family is Family.CONVEX
    assert "a contiguous split: data flows both ways" in assessed.family_note


def test_another_objective_has_its_own_value() -> None:
    graph = chain((1.0, 2.0), 0.5)
    split = Split((frozenset({1}), frozenset({2})))
    assert assess(graph, Deployment(2), split, objective=Objective.LATENCY).value_ms == 4.0
    assert assess(graph, Deployment(2), split).value_ms == 2.5


def result(status: SolveStatus, family: Family, value_ms: float, bound_ms: float | None) -> SolveResult:
    return SolveResult(status, "ip", Objective.THROUGHPUT, family, None, value_ms, bound_ms, 1.0)


@pytest.mark.parametrize(
    ("value_ms", "best", "text"),
    [
        (
            2.246,
            result(SolveStatus.OPTIMAL, Family.CHAIN, 2.0, 2.0),
            "12.3 % slower than the optimal pipeline split (2 ms, proven)",
        ),
        (
            2.0,
            result(SolveStatus.OPTIMAL, Family.CHAIN, 2.0, 2.0),
            "as fast as the optimal pipeline split (2 ms, proven)",
        ),
        (
            1.5,
            result(SolveStatus.OPTIMAL, Family.CHAIN, 2.0, 2.0),
            "25 % faster than the optimal pipeline split (2 ms, proven)",
        ),
        (
            3.0,
            result(SolveStatus.FEASIBLE, Family.FREE, 2.0, 1.5),
            "50 % slower than the best known non-contiguous split (2 ms), "
            "at most 100 % slower than any non-contiguous split",
        ),
        (
            3.0,
            result(SolveStatus.FEASIBLE, Family.CONVEX, 2.0, None),
            "50 % slower than the best known contiguous split (2 ms)",
        ),
    ],
)
def test_the_distance_names_what_it_is_measured_from(value_ms: float, best: SolveResult, text: str) -> None:
    assert distance(value_ms, best) == text


def test_without_a_plan_or_a_value_there_is_no_distance() -> None:
    assert distance(1.0, None) == ""
    assert distance(None, result(SolveStatus.OPTIMAL, Family.CHAIN, 2.0, 2.0)) == ""


def test_a_bound_holds_for_its_family_and_narrower_ones_only() -> None:
    chains = result(SolveStatus.OPTIMAL, Family.CHAIN, 2.0, 2.0)
    free = result(SolveStatus.FEASIBLE, Family.FREE, 2.0, 1.0)
    assert lower_bound_ms(Family.CHAIN, [chains, free]) == 2.0
    assert lower_bound_ms(Family.CONVEX, [chains, free]) == 1.0
    assert lower_bound_ms(Family.FREE, [chains]) is None
