"""What is found beside a running DP: taken in at any moment, and never at the price of the optimum."""

import random
import threading
import time
from dataclasses import replace

import pytest

from solvers.chain import run as chain_run
from solvers.chain.ending import Ending
from solvers.chain.improvement import with_whole_blocks
from solvers.chain.max_load import ChainSearch
from solvers.methods.beside_dp import BesideDp, Step
from solvers.model.costs import Objective, split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveStatus
from solvers.model.split import Family, Split, check_split
from solvers.problem.contraction import Contraction, contract
from solvers.problem.solving import Problem, Reporter, contracted
from solvers.solve import solve
from tests.support.graphs import chain, random_chain_split, random_dag, random_training_graph


def problem_of(seed: int, num_nodes: int = 18) -> tuple[DnnGraph, Deployment]:
    rng = random.Random(seed)  # noqa: S311 -- a test needs repetition, not secrecy
    is_training = seed % 3 == 0
    graph = random_training_graph(seed, num_nodes // 2, 0.2) if is_training else random_dag(seed, num_nodes, 0.15)
    total_bytes = sum(node.memory_bytes for node in graph.nodes)
    return graph, Deployment(rng.randrange(2, 5), rng.randrange(2), rng.choice((None, 0.7 * total_bytes)))


def search_of(graph: DnnGraph, deployment: Deployment) -> ChainSearch:
    return ChainSearch(graph, contract(graph, Family.CHAIN, deployment), deployment)


@pytest.mark.parametrize("seed", range(6))
def test_the_optimum_and_its_bound_leave_nothing_to_search(seed: int) -> None:
    graph, deployment = problem_of(seed)
    best = solve(graph, deployment)
    if best.split is None:
        assert best.status is SolveStatus.INFEASIBLE
        return
    assert best.value_ms is not None
    search = search_of(graph, deployment)
    search.offer(best.value_ms, best.split, best.value_ms)
    answer = search.run()
    assert answer.value_ms == best.value_ms
    assert answer.num_ideals == 0
    assert answer.device_of_block is not None


@pytest.mark.parametrize("seed", range(8, 18))
def test_offers_at_any_moment_change_no_answer(seed: int) -> None:
    """Valid plans and bounds, good and bad, from another thread all the while: the optimum is found and proven."""
    graph, deployment = problem_of(seed)
    best = solve(graph, deployment)
    search, is_over = search_of(graph, deployment), threading.Event()
    rng = random.Random(seed)  # noqa: S311 -- as above
    free = Deployment(deployment.num_accelerators, deployment.num_cpus)
    plans = [random_chain_split(graph, free, number) for number in range(4)]
    plans = [plan for plan in plans if not check_split(graph, deployment, plan, Family.CHAIN)]

    def keep_offering() -> None:
        while not is_over.wait(rng.uniform(0, 5e-3)):
            if plans and best.value_ms is not None:
                plan = rng.choice(plans)
                value_ms = split_costs(graph, deployment, plan).max_load_ms
                search.offer(value_ms, plan, best.value_ms * rng.random())

    thread = threading.Thread(target=keep_offering)
    thread.start()
    answer = search.run()
    is_over.set()
    thread.join()
    if best.value_ms is None:
        assert answer.device_of_block is None
        assert answer.lower_bound_ms == float("inf")
        return
    assert answer.device_of_block is not None
    assert answer.value_ms == pytest.approx(best.value_ms, rel=1e-6)
    split = Split.from_device_of(search.contraction.device_of(answer.device_of_block), deployment)
    assert not check_split(graph, deployment, split, Family.CHAIN)
    assert split_costs(graph, deployment, split).max_load_ms == pytest.approx(answer.value_ms)


def test_one_who_stops_it_is_heard_whatever_is_offered() -> None:
    graph, deployment = problem_of(1)
    best = solve(graph, deployment)
    assert best.split is not None
    search = search_of(graph, deployment)
    search.stop()
    search.offer(2.0 * (best.value_ms or 0.0), best.split, 0.0)
    assert search.run().lower_bound_ms < (best.value_ms or 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_with_all_of_it_beside_every_dp_answers_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, deployment = problem_of(seed)
    alone = solve(graph, deployment, method="dp")
    monkeypatch.setattr(chain_run, "MEANWHILE_AFTER_S", -1.0)
    monkeypatch.setattr(chain_run, "CORE_SHARE", 0.0)
    monkeypatch.setattr(chain_run, "POLL_SECONDS", 1e-4)
    monkeypatch.setattr(chain_run, "OFFERED_GAIN", 0.0)
    beside = solve(graph, deployment, method="auto")
    assert beside.status is alone.status
    if alone.value_ms is not None:
        assert beside.value_ms == pytest.approx(alone.value_ms, rel=1e-6)
        assert beside.lower_bound_ms == pytest.approx(beside.value_ms, rel=1e-6)


def test_what_was_interrupted_beside_the_dp_is_done_after_it_and_nothing_twice() -> None:
    graph, deployment = problem_of(1)
    deployment = replace(deployment, num_cpus=1)
    problem = Problem(graph, deployment, Objective.THROUGHPUT, Family.CHAIN, None, 0.0)
    helper = BesideDp(contract(graph, Family.CHAIN, deployment), problem, Reporter(problem, None))
    begun: list[str] = []

    def step(name: str) -> Step:
        return lambda watch: begun.append(name)

    helper._bound_steps = [step("cheap"), step("dear"), step("dearer")]
    helper._plan_steps = [step("first"), step("again")]
    helper.beside(lambda: len(begun) < 3)
    assert begun == ["cheap", "first", "dear"]
    helper.after(lambda: True)
    assert sorted(begun[3:]) == ["again", "dear", "dearer"]
    helper.after(lambda: True)
    assert len(begun) == 6


@pytest.mark.parametrize("seed", range(12))
def test_its_steps_alone_find_plans_and_prove_bounds(seed: int) -> None:
    """From a poor plan, without any DP: every plan is valid, every bound true, and the optimum is nearly always met."""
    graph, deployment = problem_of(seed, num_nodes=12)
    best = solve(graph, deployment)
    if best.value_ms is None:
        return
    problem = Problem(graph, deployment, Objective.THROUGHPUT, Family.CHAIN, 30.0, 0.0)
    reporter = Reporter(problem, None)
    free = Deployment(deployment.num_accelerators, deployment.num_cpus)
    if not any(reporter.found(random_chain_split(graph, free, number)) for number in range(20)):
        assert best.split is not None
        reporter.found(best.split)
    helper = BesideDp(contract(graph, Family.CHAIN, deployment), problem, reporter)
    helper.after(lambda: not reporter.within(0.0))
    assert reporter.split is not None
    assert not check_split(graph, deployment, reporter.split, Family.CHAIN)
    assert reporter.value_ms == pytest.approx(best.value_ms, rel=1e-6)
    assert (reporter.lower_bound_ms or 0.0) <= best.value_ms * (1 + 1e-6)


def test_of_what_annealing_finds_pipelines_are_taken_and_nothing_else() -> None:
    """From random pipelines, many of which it betters."""
    num_better = 0
    for seed in range(12):
        graph, deployment = problem_of(seed)
        problem = Problem(graph, deployment, Objective.THROUGHPUT, Family.CHAIN, 10.0, 0.0)
        reporter = Reporter(problem, None)
        unlimited = Deployment(deployment.num_accelerators, deployment.num_cpus)
        if not any(reporter.found(random_chain_split(graph, unlimited, number)) for number in range(20)):
            continue
        before_ms = reporter.value_ms
        BesideDp(contract(graph, Family.CHAIN, deployment), problem, reporter)._anneal(lambda: True)
        assert reporter.split is not None
        assert reporter.value_ms is not None
        assert before_ms is not None
        assert not check_split(graph, deployment, reporter.split, Family.CHAIN)
        assert reporter.value_ms <= before_ms
        num_better += reporter.value_ms < before_ms * (1 - 1e-6)
    assert num_better >= 4


def test_prices_prove_the_optimum_beside_a_dp_without_a_time_limit() -> None:
    """Long and short nodes in turn: total work proves 10.5, merging nodes 12.99, and no two stages are below 13."""
    graph, deployment = chain([6.0, 1.0, 6.0, 1.0, 6.0, 1.0], transfer_ms=0.0), Deployment(2)
    problem = Problem(graph, deployment, Objective.THROUGHPUT, Family.CHAIN, None, 0.0)
    reporter = Reporter(problem, None)
    best = solve(graph, deployment)
    assert best.split is not None
    reporter.found(best.split)
    helper = BesideDp(contract(graph, Family.CHAIN, deployment), problem, reporter)
    helper.after(lambda: not reporter.within(0.0))
    assert reporter.value_ms == pytest.approx(13.0)
    assert reporter.lower_bound_ms == pytest.approx(13.0, rel=1e-4)


def test_prices_that_had_a_part_of_the_time_go_on_after_the_dp_and_plans_as_long_as_they(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, deployment = chain([6.0, 1.0, 6.0, 1.0, 6.0, 1.0], transfer_ms=0.0), Deployment(2)
    problem = Problem(graph, deployment, Objective.THROUGHPUT, Family.CHAIN, 60.0, 0.0)
    reporter = Reporter(problem, None)
    best = solve(graph, deployment)
    assert best.split is not None
    reporter.found(best.split)
    monkeypatch.setattr("solvers.methods.beside_dp.PRICES_SHARE", 0.0)
    helper = BesideDp(contract(graph, Family.CHAIN, deployment), problem, reporter)
    helper.beside(lambda: True)
    assert (reporter.lower_bound_ms or 0.0) < 12.995
    num_courses = helper._num_courses
    helper.after(lambda: not reporter.within(0.0))
    assert reporter.lower_bound_ms == pytest.approx(13.0, rel=1e-4)
    assert helper._num_courses >= num_courses


@pytest.mark.parametrize("most", [0.0, 1e9])
def test_with_a_cpu_bounds_are_those_whose_diagrams_are_small_enough(
    most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = random_dag(3, 18, 0.15)
    deployment = Deployment(3, 1)
    problem = Problem(graph, deployment, Objective.THROUGHPUT, Family.CHAIN, 60.0, 0.0)
    best = solve(graph, deployment)
    assert best.split is not None
    assert best.value_ms is not None
    reporter = Reporter(problem, None)
    reporter.found(best.split)
    monkeypatch.setattr("solvers.methods.beside_dp.CONVEX_NODES", most)
    helper = BesideDp(contract(graph, Family.CHAIN, deployment), problem, reporter)
    helper.after(lambda: not reporter.within(0.0))
    assert helper._bounds is not None
    assert (helper._bounds._paths is not None) is (most > 0)
    assert (reporter.lower_bound_ms or 0.0) <= best.value_ms * (1 + 1e-6)


def test_the_time_is_used_where_an_integer_program_turns_out_not_to_be_buildable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was to have most of the time; plans and bounds have that, too, when it cannot be built after all."""
    answers = iter((True, True, False))
    monkeypatch.setattr("solvers.methods.throughput._is_buildable", lambda *_: next(answers))
    monkeypatch.setattr("solvers.methods.throughput.IMPROVEMENT_SHARE", 0.0)
    monkeypatch.setattr("solvers.methods.throughput.run_dp", first_plan_alone)
    graph, deployment = chain([6.0, 1.0, 6.0, 1.0, 6.0, 1.0], transfer_ms=0.0), Deployment(2)
    result = solve(graph, deployment, time_limit_s=60.0)
    assert result.status is SolveStatus.OPTIMAL
    assert result.value_ms == pytest.approx(13.0)
    assert "too large" not in result.message


def first_plan_alone(
    contraction: Contraction, problem: Problem, reporter: Reporter, *_: object, **__: object
) -> Ending:
    """Do as a DP that time left with a poor plan."""
    reporter.found(Split.from_device_of({node.id: 0 for node in problem.graph.nodes}, problem.deployment))
    return Ending.STOPPED


def test_a_plan_that_the_search_cannot_take_is_offered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that divides a block: with each offer the search begins anew."""
    monkeypatch.setattr(chain_run, "MEANWHILE_AFTER_S", 0.0)
    monkeypatch.setattr(chain_run, "CORE_SHARE", 0.0)
    graph, deployment = chain([1.0, 2.0]), Deployment(2)
    problem = Problem(graph, deployment, Objective.THROUGHPUT, Family.CHAIN, time_limit_s=60.0, gap=0.0)
    reporter = Reporter(problem, None)
    assert reporter.found(Split((frozenset({1}), frozenset({2}))))
    offers: list[float] = []

    class Search:
        lower_bound_ms, value_ms, phase = 0.1, 5.0, "search"
        is_stopped = False

        def run(self) -> None:
            while not self.is_stopped:
                time.sleep(0.01)

        def stop(self) -> None:
            self.is_stopped = True

        def offer(self, value_ms: float, _split: Split, _bound_ms: float) -> None:
            offers.append(value_ms)

    search = Search()

    def meanwhile(watch: chain_run.Watch) -> None:
        until = time.monotonic() + 10 * chain_run.POLL_SECONDS
        while time.monotonic() < until and watch():
            time.sleep(0.01)
        search.stop()

    chain_run.run_watched(
        search, lambda _: None, lambda _: None, problem, reporter, None, proves=True, meanwhile=meanwhile
    )
    assert len(offers) == 1


@pytest.mark.parametrize("seed", range(6))
def test_a_split_is_made_to_keep_blocks_whole(seed: int) -> None:
    """Nodes without work are joined to others in pipelines, and not in contiguous splits."""
    graph = random_dag(seed, 10, 0.2)
    graph = graph.with_nodes(
        tuple(
            replace(node, accelerator_ms=0.0, cpu_ms=0.0, transfer_ms=0.0) if node.id % 2 else node
            for node in graph.nodes
        )
    )
    deployment = Deployment(3)
    problem = Problem(graph, deployment, Objective.THROUGHPUT, Family.CHAIN, time_limit_s=None, gap=0.0)
    contraction = contracted(problem, Family.CHAIN)
    assert contraction.num_blocks < len(graph.nodes)
    split = random_chain_split(graph, deployment, seed)
    whole, before = with_whole_blocks(graph, contraction, split), split.device_of()
    for members in contraction.members:
        assert len({whole[v] for v in members}) == 1
        assert any(whole[v] == before[v] for v in members)
