"""Integer programs, annealing and repair over accelerators of several classes: brute force agrees."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.baselines.scotch import scotch_program
from solvers.baselines.table import BASELINES
from solvers.free.plans.annealing import Annealing
from solvers.milp.repair import repair
from solvers.model.costs import Objective, split_costs
from solvers.model.deployment import Communication, Deployment, DeviceClass, InFlight, TrainingMemory
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveStatus
from solvers.model.split import Family, check_split
from solvers.problem.contraction import contract
from solvers.problem.pins import pins_of
from solvers.solve import solve
from tests.support.agreement import assert_optimal, solve_by_ip_alone
from tests.support.examples import examples
from tests.support.graphs import (
    Drawn,
    chain,
    class_deployments,
    mixed,
    random_classes,
    random_dag,
    random_split,
    random_training_graph,
    with_class_times,
)
from tests.support.pinned_plans import check_agreement
from tests.support.reference import all_splits, best_value


@pytest.mark.parametrize("family", list(Family))
@given(instance=mixed(), communication=st.sampled_from(Communication))
@examples(25)
def test_the_program_alone_agrees_with_brute_force(
    family: Family, instance: Drawn, communication: Communication
) -> None:
    instance = instance[0], replace(instance[1], communication=communication)
    best = best_value(*instance, family, Objective.THROUGHPUT)
    assert_optimal(solve_by_ip_alone(instance, family, Objective.THROUGHPUT), instance, best)


@pytest.mark.parametrize("family", list(Family))
@given(instance=mixed(max_nodes=3, backward=True), communication=st.sampled_from(Communication))
@examples(15)
def test_so_it_does_on_gpipe(family: Family, instance: Drawn, communication: Communication) -> None:
    instance = instance[0], replace(instance[1], communication=communication)
    best = best_value(*instance, family, Objective.GPIPE)
    assert_optimal(solve_by_ip_alone(instance, family, Objective.GPIPE), instance, best)


@given(st.integers(0, 10_000), st.sampled_from(InFlight), class_deployments())
@examples(20)
def test_so_it_does_under_a_schedules_memory(seed: int, schedule: InFlight, deployment: Deployment) -> None:
    graph = random_training_graph(seed, 3)
    nodes = tuple(
        replace(node, memory_bytes=3.0, activation_bytes=float(seed // 7**i % 3), parameter_bytes=1.0)
        for i, node in enumerate(graph.nodes)
    )
    memory = TrainingMemory(schedule, 3)
    instance = DnnGraph(nodes, graph.edges), replace(deployment, training_memory=memory)
    best = best_value(*instance, Family.CHAIN, Objective.THROUGHPUT)
    assert_optimal(solve_by_ip_alone(instance, Family.CHAIN, Objective.THROUGHPUT), instance, best)


@pytest.mark.parametrize("family", list(Family))
@given(instance=mixed(max_nodes=5))
@examples(10)
def test_the_answer_to_everybody_is_the_optimum(family: Family, instance: Drawn) -> None:
    best = best_value(*instance, family, Objective.THROUGHPUT)
    assert_optimal(solve(*instance, family=family), instance, best)


@pytest.mark.parametrize("family", list(Family))
@given(instance=mixed(), data=st.data())
@examples(15)
def test_pins_are_honoured(family: Family, instance: Drawn, data: st.DataObject) -> None:
    graph, deployment = instance
    devices = st.integers(0, deployment.num_devices - 1)
    pins = pins_of(data.draw(st.dictionaries(st.sampled_from(sorted(graph.node_by_id)), devices, max_size=3)))
    check_agreement(graph, deployment, pins, family, "ip", Objective.THROUGHPUT)


@given(st.integers(0, 10_000), st.sampled_from(Communication), st.booleans())
@examples(40)
def test_annealing_keeps_its_books_of_every_class(seed: int, communication: Communication, convex: bool) -> None:
    graph = random_dag(seed, 8)
    deployment = replace(random_classes(seed, 1), communication=communication)
    start = solve(graph, deployment, method="dp")
    if start.split is None or start.value_ms is None:
        return
    contraction = contract(graph, Family.CONVEX if convex else Family.FREE, deployment)
    device_of = start.split.device_of()
    annealing = Annealing(
        contraction,
        deployment,
        {b: device_of[ids[0]] for b, ids in enumerate(contraction.members)},
        convex_in=graph if convex else None,
    )
    assert annealing.value_ms == pytest.approx(start.value_ms)
    annealing.sweep()
    split = type(start.split).from_device_of(
        contraction.device_of(dict(enumerate(annealing.best[1].tolist()))), deployment
    )
    assert not check_split(graph, deployment, split, Family.CONVEX if convex else Family.FREE)
    assert split_costs(graph, deployment, split).max_load_ms == pytest.approx(annealing.value_ms)
    assert annealing.value_ms <= start.value_ms * (1 + 1e-9)


@pytest.mark.parametrize("family", list(Family))
@given(st.integers(0, 10_000))
@examples(8)
def test_a_repair_moves_as_few_nodes_as_any_valid_plan(family: Family, seed: int) -> None:
    graph = random_dag(seed, 4)
    deployment = random_classes(seed)
    split = random_split(graph, deployment, seed)
    device_of = split.device_of()
    fewest = min(
        (
            sum(d != device_of[v] for v, d in plan.device_of().items())
            for plan in all_splits(graph, deployment)
            if not check_split(graph, deployment, plan, family)
        ),
        default=None,
    )
    mended = repair(graph, deployment, split, family=family)
    if fewest is None:
        assert mended.split is None
    else:
        assert mended.split is not None
        assert not check_split(graph, deployment, mended.split, family)
        assert len(mended.moved) == fewest


def test_a_larger_mix_has_a_bound_that_holds() -> None:
    """Two fast and four slow accelerators: a free plan no worse than the best chain, and not below its bound."""
    graph = random_dag(7, 14, 0.4)
    classes = (DeviceClass("A100", 2), DeviceClass("T4", 4, 0.25, link_speed=0.5))
    deployment = Deployment.of_classes(classes, 1)
    chain = solve(graph, deployment, time_limit_s=20)
    assert chain.status is SolveStatus.OPTIMAL
    free = solve(graph, deployment, family=Family.FREE, time_limit_s=2)
    assert free.value_ms is not None
    assert chain.value_ms is not None
    assert free.value_ms <= chain.value_ms * (1 + 1e-9)
    assert free.lower_bound_ms is not None
    assert 0 < free.lower_bound_ms <= free.value_ms


@pytest.mark.parametrize("name", sorted(BASELINES.keys() - {"expert"} - (set() if scotch_program() else {"scotch"})))
def test_baselines_plan_for_classes_and_are_no_better_than_the_optimum(name: str) -> None:
    for seed in range(2):
        graph, deployment = with_class_times(random_dag(seed, 6), seed), random_classes(seed, 1)
        for objective in BASELINES[name].objectives - {Objective.GPIPE}:
            plan = solve(graph, deployment, method=name, objective=objective)
            best = solve(graph, deployment, objective=objective, family=Family.FREE)
            assert plan.rejected is not None or plan.value_ms is not None
            assert plan.lower_bound_ms is not None
            assert best.value_ms is not None
            assert plan.lower_bound_ms <= best.value_ms * (1 + 1e-9)
            if plan.split is not None:
                assert not check_split(graph, deployment, plan.split)
                assert plan.value_ms is not None
                assert plan.value_ms >= best.value_ms * (1 - 1e-6)


def test_one_accelerator_is_the_best_class_for_all_nodes() -> None:
    classes = (DeviceClass("slow", 2, 0.5), DeviceClass("fast", 1, 4.0), DeviceClass("small", 1, 8.0, 1.0))
    result = solve(chain((2.0, 4.0)), Deployment.of_classes(classes), method="single")
    assert result.value_ms == pytest.approx(1.5)
    assert result.split is not None
    assert [len(members) for members in result.split.accelerators] == [0, 0, 2, 0]


def test_a_split_of_ones_own_is_judged() -> None:
    rng = random.Random(1)  # noqa: S311
    deployment = Deployment.of_classes((DeviceClass("A", 1), DeviceClass("B", 1, rng.choice((0.5, 0.25)))))
    graph = random_dag(1, 5)
    split = random_split(graph, replace(deployment), 1)
    result = solve(graph, deployment, method="expert", start=split)
    assert result.value_ms is not None or result.rejected is not None
