"""The teaching branch and bound: bound <= optimum <= incumbent at every step, and the solvers' answer at the end."""

import pytest
from hypothesis import given

from solvers.model.costs import Objective, split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Family, check_split
from solvers.teaching import branch_and_bound
from solvers.teaching.branch_and_bound import Ending, branch_steps
from solvers.teaching.integer_program import IntegerProgram, x
from solvers.teaching.small import SmallProblem, TeachingError
from tests.support.graphs import chain, convex_witness, dag, random_split, small_graphs
from tests.support.reference import best_value

PLACES = small_graphs(max_nodes=4, max_accelerators=2, colocation=False, backward=False)
NEAR = 1e-6


@pytest.mark.parametrize("contiguous", [True, False])
@given(place=PLACES)
def test_the_optimum_lies_between_bound_and_incumbent_at_every_step(
    contiguous: bool, place: tuple[DnnGraph, Deployment]
) -> None:
    graph, deployment = place
    if contiguous and deployment.num_accelerators and deployment.num_cpus:
        with pytest.raises(TeachingError, match="a CPU may stand anywhere"):
            list(branch_steps(SmallProblem(graph, deployment), contiguous=True))
        return
    family = Family.CHAIN if contiguous else Family.FREE
    optimum = best_value(graph, deployment, family, Objective.THROUGHPUT)
    steps = list(branch_steps(SmallProblem(graph, deployment), contiguous=contiguous))
    bound_ms = 0.0
    for step in steps:
        assert step.bound_ms >= bound_ms - NEAR, "the bound never falls"
        bound_ms = step.bound_ms
        if optimum is not None:
            assert step.bound_ms <= optimum + NEAR
            assert step.incumbent_ms is None or step.incumbent_ms >= optimum - NEAR
    last = steps[-1]
    if optimum is None:
        assert last.incumbent is None
        assert {step.ending for step in steps} <= {Ending.INFEASIBLE, Ending.BRANCHED, Ending.WHOLE}
        return
    assert last.incumbent is not None
    assert last.incumbent_ms == pytest.approx(optimum, abs=NEAR)
    assert last.bound_ms == pytest.approx(optimum, abs=NEAR)
    assert not check_split(graph, deployment, last.incumbent, family)
    assert split_costs(graph, deployment, last.incumbent).max_load_ms == pytest.approx(last.incumbent_ms)


@given(place=PLACES)
def test_the_tree_is_a_tree_and_each_relaxation_is_a_bound_on_those_below(place: tuple[DnnGraph, Deployment]) -> None:
    steps = {step.number: step for step in branch_steps(SmallProblem(*place), contiguous=False)}
    for step in steps.values():
        if step.parent is None:
            assert step.number == 0
            continue
        parent = steps[step.parent]
        assert parent.ending is Ending.BRANCHED
        assert parent.branch_on is not None
        assert dict(step.fixed).keys() - dict(parent.fixed).keys() == {parent.branch_on}
        if step.relaxed is not None and parent.relaxed is not None:
            assert step.relaxed.bound_ms >= parent.relaxed.bound_ms - NEAR


@given(place=PLACES)
def test_every_valid_plan_satisfies_every_row(place: tuple[DnnGraph, Deployment]) -> None:
    graph, deployment = place
    problem = SmallProblem(graph, deployment)
    program = IntegerProgram(problem, contiguous=False)
    split = random_split(graph, deployment, 1)
    if check_split(graph, deployment, split):
        return
    device_of = split.device_of()
    value = {x(v, d): float(device_of[v] == d) for v, d in program.choices}
    value["T"] = split_costs(graph, deployment, split).max_load_ms
    for i, tensor in enumerate(graph.tensors):
        for d in range(deployment.num_accelerators):
            at = {device_of[v] == d for v in (tensor.source, *tensor.readers)}
            value[f"y[{i + 1},{d + 1}]"] = float(len(at) == 2)
    for row in program.rows:
        left = sum(factor * value[name] for name, factor in row.coefficients)
        assert left <= row.right + NEAR
        assert not row.is_equal or left == pytest.approx(row.right)


@given(place=PLACES)
def test_with_all_nodes_fixed_the_program_says_what_the_plan_takes(place: tuple[DnnGraph, Deployment]) -> None:
    graph, deployment = place
    program = IntegerProgram(SmallProblem(graph, deployment), contiguous=False)
    split = random_split(graph, deployment, 1)
    device_of = split.device_of()
    relaxed = program.relaxed({(v, d): int(device_of[v] == d) for v, d in program.choices})
    if check_split(graph, deployment, split):
        assert relaxed is None
        return
    assert relaxed is not None
    assert relaxed.bound_ms == pytest.approx(split_costs(graph, deployment, split).max_load_ms, abs=NEAR)


def test_the_relaxation_of_a_chain_divides_all_nodes_and_gives_the_trivial_bound() -> None:
    graph = chain([4.0, 3.0, 5.0], 1.0)
    relaxed = IntegerProgram(SmallProblem(graph, Deployment(2)), contiguous=False).relaxed({})
    assert relaxed is not None
    assert relaxed.bound_ms == pytest.approx(6.0)
    assert all(share == pytest.approx(0.5) for share in relaxed.shares.values())


def test_contiguity_costs_what_is_known_of_the_witness() -> None:
    problem = SmallProblem(convex_witness(), Deployment(2))
    ends = [list(branch_steps(problem, contiguous=contiguous))[-1].incumbent_ms for contiguous in (True, False)]
    assert ends == [5.0, 4.0]


def test_rows_are_written_as_in_a_book() -> None:
    rows = IntegerProgram(SmallProblem(chain([2.0, 3.0], 0.5), Deployment(2)), contiguous=True).rows
    texts = [row.text for row in rows]
    assert texts[0] == "x[1,1] + x[1,2] = 1"
    assert "x[1,1] − x[2,1] − y[1,1] ≤ 0" in texts
    assert "2 x[1,1] + 3 x[2,1] + 0.5 y[1,1] − T ≤ 0" in texts
    assert texts[-1] == "x[2,1] − x[1,1] ≤ 0"


def test_a_tree_that_is_too_large_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch_and_bound, "MAX_STEPS", 2)
    problem = SmallProblem(dag([1.0, 2.0, 3.0, 5.0], ()), Deployment(2))
    with pytest.raises(TeachingError, match="take fewer nodes"):
        list(branch_steps(problem, contiguous=False))


def test_a_split_is_none_where_nothing_fits() -> None:
    steps = list(branch_steps(SmallProblem(dag([1.0], (), memory_bytes=9.0), Deployment(1, 0, 4.0)), contiguous=True))
    assert steps[-1].incumbent is None
