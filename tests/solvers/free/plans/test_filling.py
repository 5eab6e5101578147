"""Plans made of prices keep every rule, and lead to optima; a wider family is never worse than a narrower one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.free.column_generation import DeviceContents
from solvers.free.merged_blocks import Prices
from solvers.free.patterns import Paths
from solvers.free.plans import filling
from solvers.free.plans.annealing import Annealing
from solvers.free.plans.filling import filled, filled_by_work
from solvers.free.plans.flat_problem import ForwardOrder, flat_problem, largest_load
from solvers.model.costs import Objective, split_costs
from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveStatus
from solvers.model.split import Family, Split, check_split
from solvers.problem.contraction import Contraction, contract
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.graphs import chain, class_deployments, dag, random_dag, small_graphs, with_class_times
from tests.support.reference import best_value


def made(
    graph: DnnGraph, deployment: Deployment, family: Family, seed: int, pins: dict[int, int]
) -> tuple[Contraction, np.ndarray, float] | None:
    """Return a plan made of random prices and its largest load; None if the blocks were not all placed."""
    contraction = contract(graph, family, deployment)
    order = ForwardOrder.of(graph) if family is Family.CONVEX else None
    paths = Paths.of(contraction, graph) if family is Family.CONVEX and seed % 2 else None
    fixed = np.full(contraction.num_blocks, -1, np.int32)
    for b, d in pins.items():
        if b < len(fixed) and d < deployment.num_devices:
            fixed[b] = d
    problem = flat_problem(contraction, deployment, order, fixed >= 0)
    rng = np.random.default_rng(seed)
    contents = DeviceContents(contraction, deployment, paths=paths)
    threshold_ms = float(rng.uniform(0.0, 20.0))
    if seed % 3:  # so that there is something to be taken of what is known
        for _ in range(5):
            noise = rng.uniform(-0.5, 2.0, contraction.num_blocks)
            contents.take(contents.dearest(noise, threshold_ms, 0), threshold_ms)
    parts = np.arange(contraction.num_blocks, dtype=np.int32)
    prices = Prices(contents, rng.uniform(-0.5, 2.0, contraction.num_blocks), parts, 0.0)
    device = filled(prices, threshold_ms, problem, fixed, rng, object)
    if device is None:
        return None
    assert (device[fixed >= 0] == fixed[fixed >= 0]).all()
    return contraction, device, float(largest_load(problem, device))


def assert_valid(graph: DnnGraph, deployment: Deployment, family: Family, seed: int) -> None:
    answer = made(graph, deployment, family, seed, {})
    if answer is None:
        return
    contraction, device, load_ms = answer
    split = Split.from_device_of(contraction.device_of(dict(enumerate(device.tolist()))), deployment)
    assert not check_split(graph, deployment, split, family)
    assert load_ms == pytest.approx(split_costs(graph, deployment, split).max_load_ms)


@given(
    small_graphs(max_nodes=6, max_cpus=2),
    st.sampled_from((Family.FREE, Family.CONVEX)),
    st.sampled_from(Communication),
    st.integers(0, 1000),
)
@examples(60)
def test_plans_keep_every_rule(
    instance: tuple[DnnGraph, Deployment], family: Family, communication: Communication, seed: int
) -> None:
    graph, deployment = instance
    if deployment.num_accelerators:
        assert_valid(graph, replace(deployment, communication=communication), family, seed)


@given(small_graphs(max_nodes=5), class_deployments(), st.integers(0, 1000))
@examples(30)
def test_plans_for_several_classes_keep_every_rule(
    drawn: tuple[DnnGraph, Deployment], deployment: Deployment, seed: int
) -> None:
    if deployment.num_accelerators:
        assert_valid(with_class_times(drawn[0], seed), deployment, Family.FREE, seed)


@pytest.mark.parametrize("family", [Family.FREE, Family.CONVEX])
def test_pinned_blocks_are_where_they_must_be(family: Family) -> None:
    for seed in range(20):
        made(random_dag(seed, num_nodes=9), Deployment(3, 1), family, seed, {0: 3, 4: 1, 5: 0})


def test_equal_blocks_are_shared_out_evenly() -> None:
    """Devices are filled to a fair share, so that each has two of six; none has three."""
    graph = dag([4.0] * 6, [], transfer_ms=0.0)
    device = filled_by_work(contract(graph, Family.FREE, Deployment(3)), Deployment(3))
    assert device is not None
    assert np.bincount(device).tolist() == [2, 2, 2]


def test_a_plan_is_made_of_known_contents_without_pricing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a chain of four equal blocks two halves are known, and others, of which those too heavy are not taken."""
    contraction, deployment = contract(chain([1.0] * 4, 0.1), Family.FREE, Deployment(2)), Deployment(2)
    contents = DeviceContents(contraction, deployment)
    for ends, load_ms in (((0, 1), 2.1), ((2, 3), 2.1), ((0,), 1.1), ((0, 1, 2), 3.1)):
        contents.add(0, np.isin(np.arange(4), ends), load_ms)
    monkeypatch.setattr(filling, "KNOWN_SHARE", 1.0)
    monkeypatch.setattr(DeviceContents, "dearest_of", None)
    problem = flat_problem(contraction, deployment, None, np.zeros(4, np.bool_))
    prices = Prices(contents, np.ones(4), np.arange(4, dtype=np.int32), 0.0)
    rng = np.random.default_rng(0)
    # By turns the two halves, whichever is first, or the rest of one of them where another set was taken.
    made = [filled(prices, 2.2, problem, np.full(4, -1, np.int32), rng, object) for _ in range(20)]
    loads = [float(largest_load(problem, device)) for device in made if device is not None]
    assert len(loads) == 20
    assert min(loads) == pytest.approx(2.1)
    assert loads.count(min(loads)) >= 15


def test_the_latest_contents_within_the_threshold_are_known() -> None:
    contraction = contract(chain([1.0] * 4, 0.1), Family.FREE, Deployment(2))
    contents = DeviceContents(contraction, Deployment(2))
    for b in range(4):
        contents.add(0, np.arange(4) == b, 1.0 + b)
    assert contents.known(0, 3.0, 10).tolist() == [[0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0]]
    assert contents.known(0, 3.0, 2).tolist() == [[0, 0, 1, 0]]
    assert contents.known(0, 0.5, 10).shape == (0, 4)
    assert contents.known(1, 3.0, 10).shape == (0, 4)


@pytest.mark.parametrize("num_cpus", [0, 1])
def test_prices_lead_to_the_optimum(num_cpus: int) -> None:
    """From the worst plan, all on one device, with work as prices at the optimum."""
    for seed in range(6):
        graph, deployment = random_dag(seed, num_nodes=7), Deployment(2, num_cpus)
        contraction = contract(graph, Family.FREE, deployment)
        n = contraction.num_blocks
        best = best_value(graph, deployment, Family.FREE, Objective.THROUGHPUT)
        assert best is not None
        contents, parts = DeviceContents(contraction, deployment), np.arange(n, dtype=np.int32)
        prices = Prices(contents, contraction.accelerator_ms, parts, 0.0)
        annealing = Annealing(contraction, deployment, dict.fromkeys(range(n), 0))
        rng = np.random.default_rng(seed)
        for _ in range(20):
            device = filled(prices, best, annealing.problem, np.full(n, -1, np.int32), rng, object)
            assert device is not None
            annealing.sweep_from(device)
        assert annealing.value_ms == pytest.approx(best)


@pytest.mark.parametrize("seed", range(4))
def test_a_wider_family_that_starts_from_the_best_plan_of_a_narrower_one_is_never_worse(seed: int) -> None:
    graph = random_dag(seed, num_nodes=24, edge_probability=0.15)
    deployment = Deployment(3, seed % 2, 0.6 * sum(node.memory_bytes for node in graph.nodes) if seed > 1 else None)
    known: list[float] = []
    start: Split | None = None
    for family in (Family.CHAIN, Family.CONVEX, Family.FREE):
        result = solve(graph, deployment, family=family, start=start, time_limit_s=1.0)
        assert result.split is not None
        assert result.value_ms is not None
        assert not check_split(graph, deployment, result.split, family)
        known.append(result.value_ms)
        start = result.split
    assert known == sorted(known, reverse=True)


def test_an_integer_program_that_is_too_large_to_run_beside_others_takes_nothing_from_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    phases: dict[int, list[str]] = {}
    values: dict[int, list[float | None]] = {}
    for most_rows in (0, 10**9):
        monkeypatch.setattr("solvers.methods.throughput.MOST_ROWS_BESIDE", most_rows)
        phases[most_rows], values[most_rows] = [], []
        for seed in range(3):
            graph = random_dag(seed, num_nodes=14, edge_probability=0.3)
            result = solve(
                graph,
                Deployment(3, 1),
                method="ip",
                family=Family.FREE,
                time_limit_s=20.0,
                on_progress=lambda report, most_rows=most_rows: phases[most_rows].append(report.phase),
            )
            values[most_rows].append(result.value_ms)
            assert result.status is SolveStatus.OPTIMAL
    assert values[0] == pytest.approx(values[10**9])
    assert phases[0].count("building the integer program") <= phases[10**9].count("building the integer program")


def test_cpus_that_only_prices_know_of_take_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a CPU plans on the accelerators alone are made of the prices of all contiguous splits."""
    graph, deployment = random_dag(3, 12), Deployment(2, 2)
    contraction = contract(graph, Family.CONVEX, deployment)
    contents = DeviceContents(contraction, deployment, paths=Paths.of(contraction, graph))
    problem = flat_problem(contraction, Deployment(2), ForwardOrder.of(graph), np.zeros(contraction.num_blocks, bool))
    put, devices = filling._put, set()

    def noting(problem: object, device: object, blocks: object, d: int) -> None:
        devices.add(d)
        if d < 2:  # of others the compiled function would read beyond its arrays
            put(problem, device, blocks, d)

    monkeypatch.setattr(filling, "_put", noting)
    rng = np.random.default_rng(0)
    price = rng.uniform(0.5, 2.0, contraction.num_blocks)
    prices = Prices(contents, price, np.arange(contraction.num_blocks, dtype=np.int32), 0.0)
    filled(prices, 40.0, problem, np.full(contraction.num_blocks, -1, np.int32), rng, object)
    assert devices == {0, 1}
