"""Which constraint limits a plan: known cases, the price by brute force, and no false sentence."""

import re
from dataclasses import replace
from typing import Any

import pytest

from solvers.analysis.binding import (
    COLOCATION,
    MEMORY,
    SPLIT_TYPE,
    SUPPORT,
    Price,
    binding_text,
    price,
    price_document,
    price_text,
    relaxations,
    tied,
)
from solvers.analysis.explanation import explain
from solvers.analysis.explanation_text import explanation_text, plain_text
from solvers.analysis.what_if import Change
from solvers.model.costs import Objective
from solvers.model.deployment import Communication, Deployment, InFlight, Replication, TrainingMemory
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import SolveStatus
from solvers.model.split import Family
from solvers.samples import read_sample
from solvers.solve import solve
from tests.support.random_problems import random_problem
from tests.support.reference import best_value, colocated_sets
from tests.support.sentence_check import MS, SHARE
from tests.support.written import Comparison


def prices_of(graph: DnnGraph, deployment: Deployment, family: Family = Family.CHAIN) -> dict[str, Price]:
    base = solve(graph, deployment, family=family)
    return {
        change.key: price(change, base, solve(change.graph, change.deployment, family=change.family))
        for change in relaxations(graph, deployment, Objective.THROUGHPUT, family)
    }


def line(num: int, **fields: float) -> DnnGraph:
    nodes = tuple(Node(v, 1.0, 4.0, **fields) for v in range(1, num + 1))  # type: ignore[arg-type]
    return DnnGraph(nodes, tuple(Edge(v, v + 1) for v in range(1, num)))


def test_memory_that_forces_work_onto_the_cpu_is_named_with_its_price() -> None:
    """Four nodes of 1 byte, two accelerators of 1 byte: two nodes go to the CPU, 8 ms instead of 2."""
    graph, deployment = line(4, memory_bytes=1.0), Deployment(2, 1, 1.0)
    found = prices_of(graph, deployment)
    assert (found[MEMORY].before_ms, found[MEMORY].gained.value_ms) == (8.0, 2.0)
    sentences = binding_text(tuple(found.values()))
    assert sentences[0] == (
        "Memory limits this plan: without a memory limit the optimum is 2 ms instead of 8 ms, 75 % less time (proven)."
    )
    assert "Split type is not binding: without the split type (pipeline) no plan is faster (proven)." in sentences
    split = solve(graph, deployment).split
    assert split is not None
    text = plain_text(explanation_text(explain(graph, deployment, split, family=Family.CHAIN), graph))
    assert (
        "Memory forces work onto CPUs: all nodes take 4 B and the accelerators together hold 2 B, so 2 B or more"
        in text
    )


def test_six_small_accelerators_are_limited_by_memory() -> None:
    graph, deployment = read_sample("bert_base_operator_inference")
    small = replace(deployment, num_accelerators=6, memory_bytes=0.02 * 2**30)
    split = solve(graph, small).split
    assert split is not None
    text = plain_text(explanation_text(explain(graph, small, split, family=Family.CHAIN), graph))
    assert "Memory forces work onto CPUs" in text


def test_a_tie_of_nodes_is_named_as_the_reason() -> None:
    """Ends of a line that share weights tie all of a chain together."""
    graph = line(4)
    ends = {1: 7, 4: 7}
    nodes = tuple(replace(node, colocation_class=ends.get(node.id), name=f"n{node.id}") for node in graph.nodes)
    graph = graph.with_nodes(nodes)
    assert tied(graph) == ((1, 4),)
    found = prices_of(graph, Deployment(2))
    assert (found[COLOCATION].before_ms, found[COLOCATION].gained.value_ms) == (4.0, 2.0)
    sentence = binding_text(tuple(found.values()))[0]
    assert sentence.startswith("Colocation limits this plan: without ties of nodes (node 1 (n1) with node 4 (n4))")
    assert found[SPLIT_TYPE].gained.value_ms == 2.0, "another split type parts them as well"


def test_in_training_a_tie_of_layers_is_undone_and_their_passes_stay_together() -> None:
    """Four layers forward (1 to 4) and back (5 to 8), the first and last tied: in a pipeline of two all is on one."""
    classes = {1: 7, 4: 7, 5: 7, 8: 7, 2: 8, 7: 8, 3: 9, 6: 9}
    graph = line(8)
    graph = graph.with_nodes(
        tuple(replace(v, colocation_class=classes[v.id], is_backward=v.id > 4, name=f"n{v.id}") for v in graph.nodes)
    )
    assert tied(graph) == ((1, 4),)
    changes = relaxations(graph, Deployment(2), Objective.THROUGHPUT, Family.CHAIN)
    loose = next(change.graph for change in changes if change.key == COLOCATION)
    assert sorted(sorted(members) for members in loose.colocation_members.values()) == [[1, 8], [2, 7], [3, 6], [4, 5]]
    found = prices_of(graph, Deployment(2))
    assert (found[COLOCATION].before_ms, found[COLOCATION].gained.value_ms) == (8.0, 4.0)
    alone = graph.with_nodes(tuple(replace(v, colocation_class=9 if v.id in (2, 3, 5) else None) for v in graph.nodes))
    assert [change.key for change in relaxations(alone, Deployment(2), Objective.THROUGHPUT, Family.FREE)] == []


def test_support_is_a_constraint_of_nodes_that_only_cpus_run() -> None:
    graph = line(2)
    graph = graph.with_nodes((replace(graph.nodes[0], runs_on_accelerator=False), graph.nodes[1]))
    found = prices_of(graph, Deployment(2, 1), Family.FREE)
    assert set(found) == {SUPPORT}
    assert (found[SUPPORT].before_ms, found[SUPPORT].gained.value_ms) == (4.0, 1.0)
    document = price_document(found[SUPPORT])
    assert (document["binding"], document["proven"], document["saved_share"]) == (True, True, 0.75)


def test_what_cannot_bind_is_not_asked() -> None:
    assert relaxations(line(3), Deployment(2), Objective.THROUGHPUT, Family.FREE) == ()
    roomy = relaxations(line(3, memory_bytes=1.0), Deployment(2, 0, 3.0), Objective.THROUGHPUT, Family.CHAIN)
    assert [change.key for change in roomy] == [SPLIT_TYPE]
    training, deployment = read_sample("gpt2_xl_layer_training")
    keys = [change.key for change in relaxations(training, deployment, Objective.THROUGHPUT, Family.CHAIN)]
    assert keys == [MEMORY, SPLIT_TYPE], "forward and backward nodes share weights"


@pytest.mark.parametrize("family", [Family.CHAIN, Family.FREE])
def test_a_plan_that_only_its_nodes_limit_says_so(family: Family) -> None:
    found = prices_of(line(3), Deployment(2), family)
    assert all(one.gained.cannot_help for one in found.values())
    text = binding_text(tuple(found.values()))
    assert text[0].startswith(("No single constraint limits", "There is no constraint to leave out"))


def test_while_some_are_still_solved_for_it_is_not_said_that_none_limits() -> None:
    found = prices_of(line(3, memory_bytes=1.0), Deployment(2, 0, 2.0), Family.CHAIN)
    assert len(found) == 2
    assert all(one.gained.cannot_help for one in found.values())
    assert binding_text(tuple(found.values()))[0] == "No single constraint limits this plan."
    for one in found.values():
        assert "No single constraint" not in "".join(binding_text((one,), are_all=False))


@pytest.mark.parametrize("seed", range(60))
def test_prices_and_their_sentences_hold_against_all_plans(seed: int) -> None:
    """The optimum with a constraint and without, each by trying every plan, is what a sentence says it is."""
    problem = random_problem(seed)
    graph, query = problem.graph, problem.query
    if "in_flight" in query or "replicas" in query or query.get("subgraphs") == "2":
        return
    deployment = replace(problem.deployment, communication=Communication(query.get("transfers", "sum")))
    objective = Objective(query["objective"])
    family = Family.FREE if objective is Objective.LATENCY else Family(query["splits"])
    asked = relaxations(graph, deployment, objective, family)
    if max(len(colocated_sets(one.graph)) for one in (*asked, Change("", "", graph, deployment, family, ""))) > 6:
        return
    base = solve(graph, deployment, objective=objective, family=family)
    with_all_ms = best_value(graph, deployment, family, objective)
    assert (base.value_ms is None) == (with_all_ms is None)
    found, prices = Comparison(), []
    for change in asked:
        answer = solve(change.graph, change.deployment, objective=objective, family=change.family)
        prices.append(price(change, base, answer))
        without_ms = best_value(change.graph, change.deployment, change.family, objective)
        told = price_text(prices[-1])
        exact = re.fullmatch(rf".* the optimum is ({MS}) instead of ({MS}), ({SHARE}) less time \(proven\)\.", told)
        first = re.fullmatch(rf".* is what forbids every plan: without .* one of ({MS}) exists\.", told)
        if exact is not None:
            assert with_all_ms is not None
            assert without_ms is not None
            found.milliseconds(told, exact[1], without_ms)
            found.milliseconds(told, exact[2], with_all_ms)
            found.percent(told, exact[3], 1 - without_ms / with_all_ms)
            found.require(told, without_ms < with_all_ms * (1 - 1e-9), "nothing is gained")
        elif first is not None:
            found.require(told, with_all_ms is None, "there is a plan with it")
            found.milliseconds(told, first[1], without_ms)
        elif with_all_ms is None:
            found.require(told, without_ms is None and "Not known whether" not in told, without_ms)
        else:
            found.require(told, told.endswith("no plan is faster (proven)."), "all of these are solved to their end")
            found.require(told, without_ms == pytest.approx(with_all_ms, rel=1e-9), without_ms)
    lead = binding_text(tuple(prices))[0]
    is_free = all(one.gained.cannot_help for one in prices)
    assert (lead == "No single constraint limits this plan.") == (bool(prices) and is_free)
    assert found.disagreements == []


@pytest.mark.parametrize(
    "options",
    [{"replication": Replication(2)}, {"training_memory": TrainingMemory(InFlight.ONE_F_ONE_B, 4)}],
)
def test_the_split_type_is_left_out_only_where_others_are_solved_for(options: dict[str, Any]) -> None:
    found = relaxations(line(3), replace(Deployment(2), **options), Objective.THROUGHPUT, Family.CHAIN)
    assert SPLIT_TYPE not in [change.key for change in found]


def test_where_no_plan_was_found_in_time_nothing_is_said_to_forbid_all() -> None:
    graph, deployment = line(3, memory_bytes=1.0), Deployment(1, 0, 2.0)
    (change,) = (one for one in relaxations(graph, deployment, Objective.THROUGHPUT, Family.CHAIN) if one.key == MEMORY)
    base, answer = solve(graph, deployment), solve(change.graph, change.deployment)
    assert base.status is SolveStatus.INFEASIBLE
    assert "forbids every plan: without a memory limit one of 3 ms exists." in price_text(price(change, base, answer))
    unknown = price(change, replace(base, status=SolveStatus.UNKNOWN), answer)
    assert price_text(unknown) == (
        "Not known whether memory forbids every plan: without a memory limit one of 3 ms was found, and none with it."
    )
    assert price_document(unknown)["binding"] is None
