"""A population keeps the best plan, no plan twice, and plans unlike each other; pairs are of two different plans."""

import numpy as np
import pytest

from solvers.free.plans.flat_problem import FlatProblem, flat_problem, largest_load
from solvers.free.plans.population import MOST_KEPT, MOST_PLANS, STALE_ROUNDS, Islands, Population
from solvers.model.deployment import Deployment
from solvers.model.split import Family
from solvers.problem.contraction import contract
from tests.support.graphs import chain, random_dag


def random_plans(num_plans: int) -> tuple[FlatProblem, list[np.ndarray]]:
    """Return plans of a random graph on three devices."""
    contraction = contract(random_dag(3, num_nodes=20, edge_probability=0.2), Family.FREE, Deployment(3))
    problem = flat_problem(contraction, Deployment(3), None, np.zeros(contraction.num_blocks, np.bool_))
    rng = np.random.default_rng(0)
    return problem, [rng.integers(3, size=contraction.num_blocks).astype(np.int32) for _ in range(num_plans)]


def test_the_best_plan_stays_and_plans_are_no_more_than_there_may_be() -> None:
    problem, plans = random_plans(100)
    population = Population(problem)
    rng = np.random.default_rng(1)
    for i, plan in enumerate(plans):
        population.add(plan)
        assert len(population) == min(i + 1, MOST_PLANS)
    drawn = [population.pair(rng) for _ in range(400)]
    kept = {tuple(device): float(largest_load(problem, device)) for pair in drawn for device in pair or ()}
    assert len(kept) == MOST_PLANS
    assert min(kept.values()) == min(float(largest_load(problem, plan)) for plan in plans)


def test_a_plan_of_other_numbers_for_the_same_devices_is_the_same() -> None:
    problem, (plan, other) = random_plans(2)
    population = Population(problem)
    for renamed in ([0, 1, 2], [1, 2, 0], [2, 1, 0]):
        population.add(np.array(renamed, np.int32)[plan])
    assert len(population) == 1
    population.add(other)
    assert len(population) == 2


def test_plans_are_taken_in_as_they_are() -> None:
    """Annealing changes its plans in place."""
    problem, (plan, other) = random_plans(2)
    population = Population(problem)
    before = {tuple(plan), tuple(other)}
    for device in (plan, other):
        population.add(device)
        device[:] = 0
    pair = population.pair(np.random.default_rng(0))
    assert pair is not None
    assert {tuple(device) for device in pair} == before


def test_a_pair_is_of_two_plans_the_better_one_first() -> None:
    problem, plans = random_plans(6)
    population = Population(problem)
    rng = np.random.default_rng(2)
    assert population.pair(rng) is None
    population.add(plans[0])
    assert population.pair(rng) is None
    for plan in plans:
        population.add(plan)
    drawn: list[float] = []
    for _ in range(300):
        pair = population.pair(rng)
        assert pair is not None
        first, second = (float(largest_load(problem, device)) for device in pair)
        assert first < second
        drawn += [first, second]
    shares = [drawn.count(value) for value in sorted(set(drawn))]
    assert len(shares) == 6
    assert shares[0] > shares[-1] > 0


@pytest.mark.parametrize("is_better", [True, False])
def test_a_new_plan_takes_the_place_of_the_one_most_like_it(is_better: bool) -> None:
    """Cuts of a chain in two: the new plan cuts next to where the worst plan does, which is unlike the others."""
    num_nodes = 2 * MOST_PLANS + 8
    graph = chain([1.0] * num_nodes)
    contraction = contract(graph, Family.FREE, Deployment(2))
    problem = flat_problem(contraction, Deployment(2), None, np.zeros(contraction.num_blocks, np.bool_))

    def cut_behind(*places: int) -> np.ndarray:
        device = np.zeros(num_nodes, np.int32)
        for place in places:
            device[place + 1 :] ^= 1
        return device

    population = Population(problem)
    # Cut at one place, then, by turns, at two more near the end.
    plans = [cut_behind(4 + i) for i in range(MOST_PLANS - 1)]
    far = cut_behind(num_nodes // 2, num_nodes - 4, num_nodes - 3)
    for plan in [*plans, far]:
        population.add(plan)
    new = cut_behind(num_nodes // 2, num_nodes - 3, num_nodes - 2) if is_better else np.zeros(num_nodes, np.int32)
    population.add(new)
    rng = np.random.default_rng(0)
    kept = {tuple(device) for _ in range(1000) for device in population.pair(rng) or ()}
    assert len(kept) == MOST_PLANS
    assert (tuple(new) in kept) == is_better
    assert (tuple(far) in kept) != is_better


def test_a_population_that_does_not_improve_is_followed_by_another_and_both_are_united() -> None:
    problem, plans = random_plans(14)
    plans.sort(key=lambda device: float(largest_load(problem, device)))
    best, first, second = plans[0], plans[1:7], plans[7:]
    islands = Islands(problem, best)

    def known() -> set[tuple[int, ...]]:
        return {tuple(device) for device in islands.devices}

    for device in first:
        islands.add(device)
    for _ in range(STALE_ROUNDS):
        assert not islands.is_apart
        islands.end_round(best, may_be_apart=True)
    assert not islands.is_apart  # the first round brought the best plan
    islands.end_round(best, may_be_apart=True)
    assert islands.is_apart
    assert islands.pair(np.random.default_rng(0)) is None
    islands.end_round(best, may_be_apart=True)  # nothing came into it yet
    assert islands.is_apart
    kept = known()
    assert kept == {tuple(device) for device in [best, *first][:MOST_KEPT]}
    for device in reversed(second):  # better and better, so that none of these rounds is stale
        islands.add(device)
        islands.end_round(best, may_be_apart=True)
        assert islands.is_apart
    for _ in range(STALE_ROUNDS - 1):
        islands.end_round(best, may_be_apart=True)
    assert islands.is_apart
    islands.end_round(best, may_be_apart=True)
    assert not islands.is_apart
    assert known() == kept | {tuple(device) for device in second[:MOST_KEPT]}


def test_a_better_plan_found_elsewhere_is_in_what_is_united() -> None:
    problem, (start, best, other) = random_plans(3)
    islands = Islands(problem, start)
    for _ in range(STALE_ROUNDS + 1):
        islands.end_round(start, may_be_apart=True)
    islands.add(other)
    islands.end_round(best, may_be_apart=False)
    assert {tuple(device) for device in islands.devices} == {tuple(start), tuple(best), tuple(other)}


def test_where_nothing_would_come_into_another_population_the_first_stays() -> None:
    problem, (start,) = random_plans(1)
    islands = Islands(problem, start)
    for _ in range(3 * STALE_ROUNDS):
        islands.end_round(start, may_be_apart=False)
        assert not islands.is_apart
    assert len(islands.devices) == 1
