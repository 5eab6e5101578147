"""Teaching methods for chains: every cell is the optimum of its subproblem, and the answers are the solvers'."""

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.model.costs import Objective, split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveStatus
from solvers.model.split import Family, Split, check_split
from solvers.solve import solve
from solvers.teaching import labels
from solvers.teaching.dynamic_program import (
    MAX_CANDIDATES,
    On,
    State,
    filled_cells,
    solved_table,
    split_of,
    traced_back,
)
from solvers.teaching.ideals import MAX_IDEALS, cover_pairs, ideal_steps, ideals_of
from solvers.teaching.ideals import num_ideals as counted
from solvers.teaching.small import MAX_NODES, SmallProblem, TeachingError
from tests.support.graphs import chain, dag, random_dag, small_graphs, training_chain
from tests.support.reference import best_value, num_ideals

PLACES = small_graphs(max_nodes=5, max_accelerators=2, colocation=False, backward=False)


def best_of_cell(problem: SmallProblem, state: State) -> float | None:
    """Return the least max-load over all ways to divide an ideal into nested stages, one after the other."""

    def best(rest: frozenset[int], devices: tuple[On, ...]) -> float | None:
        if not devices:
            return None if rest else 0.0
        found = []
        # Any subset of the rest whose other nodes do not need it: what is left must be an ideal of the whole graph.
        members = sorted(rest)
        for bits in range(2 ** len(members)):
            stage = frozenset(v for i, v in enumerate(members) if bits >> i & 1)
            before = rest - stage
            if not all(before.issuperset(problem.graph.inputs[v]) for v in before):
                continue
            own = problem.load_ms(stage) if devices[-1] is On.ACCELERATOR else problem.cpu_ms(stage)
            earlier = best(before, devices[:-1])
            if own is not None and earlier is not None:
                found.append(max(own, earlier))
        return min(found, default=None)

    orders = set(permutations((On.ACCELERATOR,) * state.accelerators + (On.CPU,) * state.cpus))
    return min((value for order in orders if (value := best(state.ideal, order)) is not None), default=None)


@given(PLACES)
def test_every_cell_is_the_optimum_of_its_subproblem(place: tuple[DnnGraph, Deployment]) -> None:
    problem = SmallProblem(*place)
    for cell in filled_cells(problem):
        assert cell.value_ms == pytest.approx(best_of_cell(problem, cell.state))


@given(PLACES)
def test_the_table_and_the_labels_end_with_the_optimum_of_the_solver(place: tuple[DnnGraph, Deployment]) -> None:
    problem = SmallProblem(*place)
    cells = solved_table(problem)
    split = split_of(problem, cells)
    answer = solve(problem.graph, problem.deployment, method="dp")
    last = labels.optimum(problem)
    if split is None:
        assert answer.status is SolveStatus.INFEASIBLE
        assert last is None
        return
    assert not check_split(problem.graph, problem.deployment, split, Family.CHAIN)
    value = split_costs(problem.graph, problem.deployment, split).max_load_ms
    assert value == pytest.approx(answer.value_ms)
    assert last is not None
    assert last.value_ms == pytest.approx(value)
    assert best_value(problem.graph, problem.deployment, Family.CHAIN, Objective.THROUGHPUT) == pytest.approx(value)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 1))
def test_larger_random_graphs_agree_too_and_labels_are_fewer_than_candidates(
    seed: int, num_accelerators: int, num_cpus: int
) -> None:
    problem = SmallProblem(random_dag(seed, 8, 0.4), Deployment(num_accelerators, num_cpus))
    cells = list(filled_cells(problem))
    split = split_of(problem, {cell.state: cell for cell in cells})
    assert split is not None
    value = solve(problem.graph, problem.deployment, method="dp").value_ms
    assert split_costs(problem.graph, problem.deployment, split).max_load_ms == pytest.approx(value)
    steps = list(labels.label_steps(problem))
    best = labels.optimum(problem)
    assert best is not None
    assert best.value_ms == pytest.approx(value)
    assert len(steps) <= sum(len(cell.candidates) for cell in cells)


@given(PLACES)
def test_no_label_that_was_dropped_leads_to_a_better_plan(place: tuple[DnnGraph, Deployment]) -> None:
    problem = SmallProblem(*place)
    best = labels.optimum(problem)
    for step in labels.label_steps(problem):
        if step.fate is labels.Fate.DOMINATED:
            assert step.by is not None
            assert step.by.ideal == step.label.ideal
        if step.fate is labels.Fate.WORSE and best is not None:
            assert step.label.value_ms >= best.value_ms
        left = labels.least_left_ms(problem, step.label)
        if step.fate is labels.Fate.HOPELESS and left is not None and best is not None:
            assert left >= best.value_ms or left == pytest.approx(best.value_ms)


@given(PLACES)
def test_a_winner_is_the_least_of_the_candidates_and_the_path_goes_from_all_nodes_to_none(
    place: tuple[DnnGraph, Deployment],
) -> None:
    problem = SmallProblem(*place)
    cells = solved_table(problem)
    for cell in cells.values():
        values = [c.value_ms for c in cell.candidates if c.value_ms is not None]
        assert cell.value_ms == min(values, default=0.0 if cell.state == State(frozenset(), 0, 0) else None)
        for candidate in cell.candidates:
            assert candidate.before.ideal | candidate.stage == cell.state.ideal
            assert not candidate.before.ideal & candidate.stage
    path = list(traced_back(problem, cells))
    if path:
        assert path[0].state.ideal == problem.nodes
        assert path[-1].state == State(frozenset(), 0, 0)
        assert len(path) == problem.deployment.num_devices + 1


@given(st.integers(0, 10**6))
def test_ideals_are_all_and_each_once(seed: int) -> None:
    problem = SmallProblem(random_dag(seed, 7, 0.35), Deployment(1))
    steps = list(ideal_steps(problem))
    found = [step.ideal for step in steps]
    assert len(found) == len(set(found)) == num_ideals(problem.graph) == counted(problem.graph)
    assert [len(ideal) for ideal in found] == sorted(map(len, found))
    for step in steps[1:]:
        assert step.before is not None
        assert step.before | {step.node} == step.ideal
    for small, large in cover_pairs(problem, found):
        assert small < large
        assert len(large - small) == 1


@pytest.mark.parametrize("n", [1, 4, 9])
def test_a_chain_has_one_ideal_more_than_nodes_and_free_nodes_have_two_to_the_n(n: int) -> None:
    assert len(ideals_of(SmallProblem(chain([1.0] * n), Deployment(1)))) == n + 1
    assert len(ideals_of(SmallProblem(dag([1.0] * n, ()), Deployment(1)))) == 2**n


@given(PLACES, st.integers(0, 31))
def test_loads_are_those_of_the_evaluator(place: tuple[DnnGraph, Deployment], bits: int) -> None:
    problem = SmallProblem(place[0], replace(place[1], memory_bytes=None, num_accelerators=2))
    inside = frozenset(v for i, v in enumerate(problem.order) if bits >> i & 1)
    split = Split((inside, problem.nodes - inside))
    expected = split_costs(problem.graph, problem.deployment, split).devices[0].load_ms
    load = problem.load_ms(inside)
    assert load is None or load == pytest.approx(expected)
    assert (load is None) == any(not problem.graph.node_by_id[v].runs_on_accelerator for v in inside)


def test_what_cannot_be_shown_is_refused_in_one_sentence() -> None:
    with pytest.raises(TeachingError, match="backward nodes"):
        SmallProblem(training_chain([1.0], [2.0]), Deployment(1))
    with pytest.raises(TeachingError, match=f"up to {MAX_NODES}"):
        SmallProblem(chain([1.0] * (MAX_NODES + 1)), Deployment(1))
    with pytest.raises(TeachingError, match=f"more than {MAX_IDEALS:,} ideals"):
        ideals_of(SmallProblem(dag([1.0] * 20, ()), Deployment(1)))
    assert MAX_CANDIDATES < 3**12
    with pytest.raises(TeachingError, match="too large"):
        next(filled_cells(SmallProblem(dag([1.0] * 12, ()), Deployment(3))))
