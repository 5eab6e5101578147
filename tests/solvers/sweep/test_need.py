"""The least hardware for a wanted time: by brute force, as a law of every plan it names, and where there is none."""

import math
from bisect import bisect_left
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from solvers.model.costs import Objective
from solvers.model.deployment import LARGEST_FACTOR, LEAST_FACTOR, Deployment, DeviceClass
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.micro_batch import MicroBatch
from solvers.model.result import SolveCancelled, SolveResult, SolveStatus
from solvers.model.split import Family
from solvers.parameters.asked import as_asked
from solvers.parameters.parameter import Asked
from solvers.samples import read_sample
from solvers.solve import solve
from solvers.sweep.axes import Quantity, Varied, asked_at
from solvers.sweep.need import BELOW, Need, is_decided, quantities_needed, search
from solvers.sweep.need_text import (
    least_text,
    need_document,
    proof_text,
    refuted_text,
    stated,
    wanted_ms,
)
from tests.support.examples import examples
from tests.support.graphs import chain, random_dag
from tests.support.reference import best_value, colocated_sets

MEMORY, ACCELERATORS = Varied(Quantity.MEMORY), Varied(Quantity.ACCELERATORS)
FACTOR = Varied(Quantity.BANDWIDTH_FACTOR)


def answered(asked: Asked, **limits: float) -> SolveResult:
    return solve(
        asked.graph, asked.deployment, objective=asked.objective, method=asked.method, family=asked.family, **limits
    )


def needed(asked: Asked, varied: Varied, limit_ms: float) -> Need:
    """Run a search to its end, every question solved in full from the start that it is given."""
    steps = search(asked, varied, limit_ms, answered(asked))
    try:
        step = next(steps)
        while True:
            question = step.asked
            step = steps.send(
                solve(
                    question.graph,
                    question.deployment,
                    objective=question.objective,
                    method=question.method,
                    family=question.family,
                    start=step.start,
                    lower_bound_ms=step.lower_bound_ms,
                )
            )
    except StopIteration as end:
        need: Need = end.value
        return need


def question(graph: DnnGraph, deployment: Deployment, family: Family = Family.CHAIN) -> Asked:
    return as_asked(graph, deployment, Objective.THROUGHPUT, family)


def optimum(asked: Asked) -> float:
    """Return the optimum by brute force, infinite where there is no plan."""
    value = best_value(asked.graph, asked.deployment, asked.family, asked.objective)
    return math.inf if value is None else value


SMALL = st.builds(random_dag, st.integers(0, 10**6), num_nodes=st.integers(2, 5))
FAMILIES = st.sampled_from(list(Family))
SHARES = st.floats(0.8, 2.5)


@given(graph=SMALL, family=FAMILIES, num_cpus=st.integers(0, 1), share=SHARES)
@examples(15, deadline=None)
def test_the_fewest_accelerators_are_those_of_brute_force(
    graph: DnnGraph, family: Family, num_cpus: int, share: float
) -> None:
    asked = question(graph, Deployment(2, num_cpus), family)
    limit_ms = share * optimum(asked)
    assume(math.isfinite(limit_ms))
    need = needed(asked, ACCELERATORS, limit_ms)
    enough = [
        k for k in range(4) if k + num_cpus and optimum(asked_at(asked, ACCELERATORS, k)) <= limit_ms * (1 + 1e-9)
    ]
    assert need.is_proven
    if enough:
        assert need.least == enough[0]
    else:
        assert need.least is None or need.least > 3


@given(graph=SMALL, family=FAMILIES, num_cpus=st.integers(0, 1), share=SHARES)
@examples(5, deadline=None)
def test_the_least_memory_is_that_of_brute_force(graph: DnnGraph, family: Family, num_cpus: int, share: float) -> None:
    asked = question(graph, Deployment(2, num_cpus), family)
    limit_ms = share * optimum(asked)
    assume(math.isfinite(limit_ms))
    need = needed(asked, MEMORY, limit_ms)
    sets = [sum(graph.node_by_id[v].memory_bytes for v in ids) for ids in colocated_sets(graph)]
    # What a device holds is a sum of what moves together, so only at such sums does anything change.
    sums = sorted({sum(chosen) for size in range(len(sets) + 1) for chosen in combinations(sets, size)})
    # Every split that fits fits in more, too, so that the least one is found by halving.
    first = bisect_left(sums, True, key=lambda at: optimum(asked_at(asked, MEMORY, at)) <= limit_ms * (1 + 1e-9))
    assert need.is_proven
    assert need.least == (pytest.approx(sums[first]) if first < len(sums) else None)


@given(graph=SMALL, family=FAMILIES, share=SHARES)
@examples(12, deadline=None)
def test_the_slowest_links_are_just_enough(graph: DnnGraph, family: Family, share: float) -> None:
    asked = question(graph, Deployment(2, 1), family)
    limit_ms = share * optimum(asked)
    assume(math.isfinite(limit_ms) and any(tensor.transfer_ms for tensor in graph.tensors))
    need = needed(asked, FACTOR, limit_ms)
    assert need.is_proven
    if need.least is None:
        assert optimum(asked_at(asked, FACTOR, 1e6)) > limit_ms
        return
    assert optimum(asked_at(asked, FACTOR, need.least)) <= limit_ms * (1 + 2e-6)
    if not need.is_any:
        assert optimum(asked_at(asked, FACTOR, need.least * (1 - 3 * BELOW))) > limit_ms


@pytest.mark.parametrize("sample", ["gnmt_layer_inference", "llama3_8b_layer_training", "unet_operator_inference"])
def test_of_an_example_each_amount_is_enough_as_it_is_stated_and_less_is_not(sample: str) -> None:
    graph, deployment = read_sample(sample)
    asked = question(graph, deployment)
    best_ms = answered(asked).value_ms
    assert best_ms is not None
    limit_ms = 1.2 * best_ms
    for varied in quantities_needed(deployment, has_speeds=graph.bandwidth_bytes_per_ms is not None):
        need = needed(asked, varied, limit_ms)
        assert need.is_proven
        assert need.least is not None
        assert need.refuted is not None
        enough = answered(asked_at(asked, varied, stated(varied, need.least, up=True)))
        assert enough.value_ms is not None
        assert enough.value_ms <= limit_ms * (1 + 1e-6)
        short = answered(asked_at(asked, varied, stated(varied, need.refuted, up=False)))
        assert short.status is SolveStatus.INFEASIBLE or (short.value_ms or 0.0) > limit_ms


def test_of_several_types_each_is_asked_about_by_itself() -> None:
    gib = 2.0**30
    graph = DnnGraph(tuple(Node(i, 4.0, 100.0, memory_bytes=gib) for i in range(10)), ())
    classes = (
        DeviceClass("big", 2, memory_bytes=4 * gib, speed=2.0),
        DeviceClass("small", 4, memory_bytes=2 * gib),
    )
    asked = question(graph, Deployment.of_classes(classes), Family.FREE)
    varied = quantities_needed(asked.deployment, has_speeds=False)
    needs = {str(one): needed(asked, one, 8.0) for one in varied}
    # In 8 ms a big one computes four nodes and a small one two; one node fits into each GiB.
    assert {name: need.least for name, need in needs.items()} == {
        "number of big": 1,
        "number of small": 1,
        "memory of big": gib,
        "memory of small": gib,
    }
    assert all(need.is_proven for need in needs.values())


def test_links_of_a_type_far_slower_than_the_others_are_asked_about_within_what_a_type_may_have() -> None:
    """A millionth of a speed that is a fraction itself would be none that a device type takes."""
    classes = (DeviceClass("fast", 2, 2.0, None, 1.0), DeviceClass("slow", 2, 1.0, None, 0.04))
    nodes = tuple(Node(v, 1.0, 1.0, transfer_ms=0.01) for v in range(1, 5))
    graph = DnnGraph(nodes, tuple(Edge(v, v + 1, 1e5) for v in range(1, 4)))
    asked = question(graph, Deployment.of_classes(classes, 0))
    need = needed(asked, Varied(Quantity.BANDWIDTH, "slow"), 100.0)
    assert need.is_any
    assert (least_text(need), proof_text(need)) == ("any", "any is enough")


def test_where_no_amount_is_enough_that_is_proven_and_says_what_is_reached() -> None:
    asked = question(chain([1.0, 5.0, 1.0]), Deployment(2))
    for varied in (ACCELERATORS, MEMORY, FACTOR):
        need = needed(asked, varied, 4.0)
        assert need.least is None
        assert need.is_proven or need.reason
    need = needed(asked, ACCELERATORS, 4.0)
    assert (least_text(need), refuted_text(need)) == ("none", "any")
    assert proof_text(need) == "none is enough, proven"
    assert need.result is not None
    assert need.result.lower_bound_ms == pytest.approx(optimum(asked_at(asked, ACCELERATORS, 3)))


def test_what_cannot_matter_says_so() -> None:
    asked = question(chain([1.0, 2.0]), Deployment(2))
    free = replace(asked.graph, nodes=tuple(replace(node, transfer_ms=0.0) for node in asked.graph.nodes))
    assert needed(question(free, Deployment(2)), FACTOR, 2.5).reason == "transfers take no time"
    alone = needed(question(free, Deployment(0, 1)), MEMORY, 1e3)
    assert alone.reason == "there is no accelerator"
    baseline = replace(asked, method="single")
    assert "proves nothing" in needed(baseline, ACCELERATORS, 2.5).reason


def test_a_search_that_is_ended_says_what_is_known_by_then() -> None:
    graph, deployment = read_sample("gnmt_layer_inference")
    asked = question(graph, deployment)
    base = answered(asked)
    assert base.value_ms is not None
    steps = search(asked, MEMORY, 1.2 * base.value_ms, base)
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.throw(SolveCancelled)
    need = end.value.value
    assert need.least is not None
    assert not need.is_proven
    assert proof_text(need) == "less may be enough"
    document = need_document(need)
    assert document["not_enough"] is None
    assert document["least"] == pytest.approx(need.least / 2**30)


def test_an_answer_that_is_not_known_is_no_proof() -> None:
    asked = question(chain([4.0, 4.0, 4.0, 4.0]), Deployment(4))
    unknown = SolveResult(SolveStatus.UNKNOWN, "dp", asked.objective, asked.family, None, None, 0.1, 1.0, "")
    steps = search(asked, ACCELERATORS, 8.5, answered(asked))
    need: Need | None = None
    try:
        next(steps)
        while True:
            steps.send(unknown)
    except StopIteration as end:
        need = end.value
    assert need is not None
    assert need.least == 4
    assert need.refuted is None
    assert not need.is_proven


def test_what_is_wanted_counts_what_micro_batches_hold() -> None:
    assert wanted_ms(10.0, MicroBatch(4, "images")) == 400.0
    assert is_decided(None, 401.0, 400.0)
    assert is_decided(399.0, 1.0, 400.0)
    assert not is_decided(500.0, 300.0, 400.0)
    with pytest.raises(PlacementError, match="give a number above 0"):
        needed(question(chain([1.0]), Deployment(1)), ACCELERATORS, 0.0)


@given(value=st.floats(1.0, 1e15))
@examples(50)
def test_amounts_are_rounded_to_the_safe_side(value: float) -> None:
    for varied in (MEMORY, Varied(Quantity.BANDWIDTH), FACTOR):
        up, down = stated(varied, value, up=True), stated(varied, value, up=False)
        assert down * (1 - 1e-12) <= value <= up * (1 + 1e-12)
        assert up - down <= 2e-3 * value


@pytest.mark.parametrize("limit", [LEAST_FACTOR, LARGEST_FACTOR])
def test_links_of_a_type_may_be_as_fast_as_any_whatever_rounding_makes_of_it(limit: float) -> None:
    deployment = Deployment.of_classes((DeviceClass("fast", 1), DeviceClass("slow", 1, 0.5)))
    for tenths in range(1, 100):
        nodes = Node(1, 1.0, 1.0, transfer_ms=tenths / 10), Node(2, 1.0, 1.0)
        asked = as_asked(DnnGraph(nodes, (Edge(1, 2, 1e6),)), deployment, Objective.THROUGHPUT)
        bandwidth = asked.graph.bandwidth_bytes_per_ms
        assert bandwidth is not None
        fastest = asked_at(asked, Varied(Quantity.BANDWIDTH, "slow"), limit * bandwidth)
        assert fastest.deployment.classes[1].link_speed == pytest.approx(limit, rel=1e-9)
