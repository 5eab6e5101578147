"""Improving chains: valid, never worse, and optimal where every block is free."""

import random
import time

import pytest

from solvers.chain import max_load as max_load_module
from solvers.chain.improvement import ChainImprovement, chain_by_block
from solvers.chain.label_kernel import FINISHED, LOOK_EVERY, PAUSED
from solvers.chain.label_search import ThresholdSearch, flat_edges
from solvers.chain.max_load import ChainSearch
from solvers.chain.stage_search import VariantSearch
from solvers.model.costs import Objective, split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import LOADING, SolveStatus
from solvers.model.split import Family, Split, check_split
from solvers.problem.contraction import Contraction, contract
from solvers.solve import solve
from tests.support.graphs import random_chain_split, random_dag, random_training_graph


def start_of(graph: DnnGraph, contraction: Contraction, deployment: Deployment, seed: int) -> dict[int, int]:
    """Return a random chain by block."""
    device_of = random_chain_split(graph, deployment, seed).device_of()
    return {b: device_of[ids[0]] for b, ids in enumerate(contraction.members)}


@pytest.mark.parametrize("seed", range(6))
def test_sweeps_give_better_and_better_chains(seed: int) -> None:
    graph = random_training_graph(seed, 12) if seed % 2 else random_dag(seed, 20, 0.15)
    deployment = Deployment(3, seed % 3)
    contraction = contract(graph, Family.CHAIN, deployment)
    improvement = ChainImprovement(
        ChainSearch(graph, contraction, deployment), start_of(graph, contraction, deployment, seed), seed
    )
    for _ in range(8):
        before = improvement.value_ms
        is_better = improvement.sweep()
        assert (improvement.value_ms < before) is is_better
        split = Split.from_device_of(contraction.device_of(improvement.device_of_block), deployment)
        assert not check_split(graph, deployment, split, Family.CHAIN)
        assert split_costs(graph, deployment, split).max_load_ms == pytest.approx(improvement.value_ms)


@pytest.mark.parametrize("seed", range(6))
def test_with_every_block_free_the_optimum_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, deployment = random_dag(seed, 12, 0.3), Deployment(3, seed % 2)
    monkeypatch.setattr("solvers.chain.improvement.FIRST_FREE", 12)
    monkeypatch.setattr("solvers.chain.improvement.PATIENCE", 1)
    monkeypatch.setattr(ChainImprovement, "_free_blocks", lambda self, count: set(range(count)))
    contraction = contract(graph, Family.CHAIN, deployment)
    improvement = ChainImprovement(
        ChainSearch(graph, contraction, deployment), start_of(graph, contraction, deployment, seed), seed
    )
    improvement.run()
    optimum = ChainSearch(graph, contraction, deployment).run().value_ms
    assert improvement.value_ms == pytest.approx(optimum, rel=2e-6)


@pytest.mark.parametrize("seed", range(30))
def test_two_dynamic_programs_agree(seed: int) -> None:
    """The one made for the plain model and the one for its variants share no code that looks for chains."""
    rng = random.Random(seed)  # noqa: S311
    size, density = rng.randrange(8, 20), rng.choice((0.1, 0.2, 0.4))
    graph = random_training_graph(seed, size // 2, density, irregular=True)
    if seed % 3:
        graph = random_dag(seed, size, density)
    total_bytes = sum(node.memory_bytes for node in graph.nodes)
    memory = rng.choice((None, total_bytes * rng.uniform(0.2, 1.0)))
    deployment = Deployment(rng.randrange(1, 6), rng.randrange(3), memory)
    contraction = contract(graph, Family.CHAIN, deployment)
    plain = ChainSearch(graph, contraction, deployment).run()
    general = VariantSearch(graph, contraction, deployment, Objective.THROUGHPUT)
    general.run()
    assert plain.value_ms == pytest.approx(general.value_ms, rel=1e-6)
    assert plain.lower_bound_ms == pytest.approx(plain.value_ms, rel=1e-6)


@pytest.mark.parametrize("near", [0.0, 0.3])
@pytest.mark.parametrize("factors", [(0, 4_000_000), (0, 1), (30, 300)])
@pytest.mark.parametrize("seed", range(12))
def test_searches_from_above_and_from_below_find_the_same_optimum(
    seed: int, factors: tuple[int, int], near: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where they are begun, found to come to too many ideals, and gone on with later."""
    monkeypatch.setattr("solvers.chain.max_load.SLOW_FACTOR", factors[0])
    monkeypatch.setattr("solvers.chain.max_load.FIRST_ABOVE", factors[1])
    monkeypatch.setattr("solvers.chain.max_load.BORDERS_AFTER", factors[1])
    monkeypatch.setattr("solvers.chain.max_load.NEAR", near)
    monkeypatch.setattr("solvers.chain.label_search.FIRST_ROWS", 8)
    rng = random.Random(seed)  # noqa: S311
    graph = random_dag(seed, rng.randrange(10, 18), 0.2)
    total_bytes = sum(node.memory_bytes for node in graph.nodes)
    deployment = Deployment(rng.randrange(1, 5), rng.randrange(2), rng.choice((None, total_bytes * 0.6)))
    contraction = contract(graph, Family.CHAIN, deployment)
    pinned = {0: 0, contraction.num_blocks - 1: 1} if seed % 3 == 0 and deployment.num_accelerators > 1 else {}
    search = ChainSearch(graph, contraction, deployment, pinned=pinned)
    answer = search.run()
    monkeypatch.undo()
    expected = VariantSearch(graph, contraction, deployment, Objective.THROUGHPUT, pinned=pinned)
    expected.run()
    assert answer.value_ms == pytest.approx(expected.value_ms, rel=1e-6)
    assert answer.lower_bound_ms == pytest.approx(answer.value_ms, rel=1e-6)
    assert (answer.device_of_block is None) == (expected.stages is None)


@pytest.mark.parametrize("seed", range(4))
def test_a_search_that_was_too_large_goes_on_where_it_was(seed: int) -> None:
    graph, deployment = random_dag(seed, 16, 0.15), Deployment(3, 1)
    contraction = contract(graph, Family.CHAIN, deployment)
    model = ChainSearch(graph, contraction, deployment)
    problem = model.flattened(flat_edges(contraction))
    threshold = 1.3 * model.run().value_ms
    whole = model.threshold_search(problem, threshold, 0.0)
    assert whole.run(2**26) == FINISHED
    parts = model.threshold_search(problem, threshold, 0.0)
    for allowed in (1, 5_000):
        assert parts.run(2**26, allowed) == PAUSED
        assert parts.num_ideals < whole.num_ideals
    assert parts.run(2**26) == FINISHED
    assert parts.num_ideals == whole.num_ideals
    assert parts.stages() == whole.stages()


def test_the_same_search_takes_the_same_course(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in it may depend on how fast the machine is: sweeps over hardware promise equal plans everywhere."""
    monkeypatch.setattr("solvers.chain.max_load.SLOW_FACTOR", 0)
    monkeypatch.setattr("solvers.chain.max_load.NEAR", 0.0)
    graph, deployment = random_dag(5, 20, 0.2), Deployment(3)
    contraction = contract(graph, Family.CHAIN, deployment)
    first, second = (ChainSearch(graph, contraction, deployment).run() for _ in range(2))
    assert first == second


def test_only_chains_of_whole_blocks_are_improved() -> None:
    nodes = tuple(Node(v, 1.0, 1.0) for v in range(3))
    graph = DnnGraph(nodes, (Edge(0, 1), Edge(1, 2)))
    deployment = Deployment(2)
    contraction = contract(graph, Family.CHAIN, deployment, join_idle=False)
    assert chain_by_block(contraction, Split.from_device_of({0: 0, 1: 0, 2: 1}, deployment)) == {0: 0, 1: 0, 2: 1}
    assert chain_by_block(contraction, Split.from_device_of({0: 0, 1: 1, 2: 0}, deployment)) is None
    joined = contract(graph, Family.CHAIN, deployment, together=[(0, 1)], join_idle=False)
    assert chain_by_block(joined, Split.from_device_of({0: 0, 1: 1, 2: 1}, deployment)) is None


@pytest.mark.slow
def test_too_many_ideals_still_give_a_plan_and_a_bound() -> None:
    graph, deployment = random_dag(3, 80, 0.04), Deployment(4, 1)
    result = solve(graph, deployment, time_limit_s=3)
    assert result.status is SolveStatus.FEASIBLE
    assert result.split is not None
    assert not check_split(graph, deployment, result.split, Family.CHAIN)
    assert result.lower_bound_ms is not None
    assert result.value_ms is not None
    assert 0 < result.lower_bound_ms < result.value_ms


def test_loading_is_a_phase_of_its_own() -> None:
    graph, deployment = random_dag(1, 8), Deployment(2)
    search = ChainSearch(graph, contract(graph, Family.CHAIN, deployment), deployment)
    assert search.phase == LOADING
    phases: list[str] = []
    solve(graph, deployment, method="dp", on_progress=lambda progress: phases.append(progress.phase))
    assert phases[0] == LOADING
    search.run()
    assert search.phase.startswith("DP over ideals")


def test_loading_ends_before_the_search_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """No limit counts while the kernel is read, so the search itself, which may be long, must be in another phase."""
    seen: list[tuple[int, str]] = []
    graph, deployment = random_dag(1, 8), Deployment(2)
    search = ChainSearch(graph, contract(graph, Family.CHAIN, deployment), deployment)
    run = ThresholdSearch.run

    def run_and_tell(self: ThresholdSearch, max_bytes: int, max_steps: int | None = None) -> int:
        seen.append((self._problem.work.size, search.phase))
        return run(self, max_bytes, max_steps)

    monkeypatch.setattr(ThresholdSearch, "run", run_and_tell)
    monkeypatch.setattr(max_load_module, "is_loaded", lambda: False)
    search.run()
    assert seen[0] == (1, LOADING)
    assert [size for size, phase in seen if phase == LOADING] == [1]
    assert max(size for size, _ in seen) > 1


def test_a_search_ends_when_ideals_become_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, deployment = random_dag(3, 18, 0.15), Deployment(3)
    contraction = contract(graph, Family.CHAIN, deployment)
    full = ChainSearch(graph, contraction, deployment).run()
    assert full.num_ideals > 100
    monkeypatch.setattr("solvers.chain.label_search.FIRST_ROWS", 4)
    monkeypatch.setattr("solvers.chain.label_search.MAX_IDEALS", 50)
    answer = ChainSearch(graph, contraction, deployment).run()
    assert answer.num_ideals <= 100
    assert answer.lower_bound_ms < full.value_ms <= answer.value_ms


@pytest.mark.slow
def test_the_first_plan_outlasts_the_share_of_the_dp(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is compiled first takes seconds; the plan must come all the same."""
    run = ThresholdSearch.run

    def slow_run(self: ThresholdSearch, max_bytes: int, max_steps: int | None = None) -> int:
        if not is_delayed:
            is_delayed.append(True)
            time.sleep(1.5)
        return run(self, max_bytes, max_steps)

    is_delayed: list[bool] = []
    monkeypatch.setattr(ThresholdSearch, "run", slow_run)
    result = solve(random_dag(3, 80, 0.04), Deployment(4, 1), time_limit_s=2.5)
    assert result.split is not None


@pytest.mark.parametrize("seed", range(12))
def test_a_narrow_order_goes_on_with_what_cuts_least(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks follow what they read from, or from the end what reads from them, and none that is ready cuts less."""
    monkeypatch.setattr("solvers.chain.improvement.DISTURBED", (1.0, 1.0))
    graph = random_training_graph(seed, 12) if seed % 2 else random_dag(seed, 20, 0.2)
    deployment = Deployment(3)
    contraction = contract(graph, Family.CHAIN, deployment)
    improvement = ChainImprovement(
        ChainSearch(graph, contraction, deployment), start_of(graph, contraction, deployment, seed), seed
    )
    stage = improvement._stage_numbers() if seed % 3 else [0] * contraction.num_blocks
    backwards = seed % 4 > 1
    order = improvement._narrow_order(stage, backwards=backwards)
    assert sorted(order) == list(range(contraction.num_blocks))
    before: list[set[int]] = [set() for _ in order]
    for a, b in contraction.edges:
        before[a if backwards else b].add(b if backwards else a)
    if backwards:
        order, stage = order[::-1], [-number for number in stage]

    def cut_ms(placed: set[int]) -> float:
        return sum(h.weight_ms for h in contraction.hyperedges if 0 < len(placed & set(h.blocks)) < len(h.blocks))

    for i, block in enumerate(order):
        placed = set(order[:i])
        ready = [b for b in order[i:] if before[b] <= placed]
        assert block in ready
        assert stage[block] == min(stage[b] for b in ready)
        others = [cut_ms(placed | {b}) for b in ready if stage[b] == stage[block]]
        assert cut_ms(placed | {block}) == pytest.approx(min(others))


def test_a_line_that_cuts_little_is_where_improvement_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """What all layers hand out is summed up: in the order given all of it would be sent on until the end."""
    size = 12
    layers = [Node(i, 1.0, 10.0, transfer_ms=0.1) for i in range(size)]
    outputs = [Node(size + i, 0.1, 10.0, transfer_ms=1.0) for i in range(size)]
    sums = [Node(2 * size + i, 0.1, 10.0, transfer_ms=1.0) for i in range(1, size)]
    edges = [Edge(i, i + 1) for i in range(size - 1)] + [Edge(i, size + i) for i in range(size)]
    edges += [Edge(size, 2 * size + 1)] + [Edge(2 * size + i, 2 * size + i + 1) for i in range(1, size - 1)]
    edges += [Edge(size + i, 2 * size + i) for i in range(1, size)]
    graph, deployment = DnnGraph((*layers, *outputs, *sums), tuple(edges)), Deployment(4)
    contraction = contract(graph, Family.CHAIN, deployment)
    search = ChainSearch(graph, contraction, deployment)
    improvement = ChainImprovement(search, dict.fromkeys(range(contraction.num_blocks), 0))
    looks: list[float] = []
    look = improvement._look_along

    def noted(order: list[int], threshold_ms: float, *others: float) -> bool:
        looks.append(threshold_ms)
        return look(order, threshold_ms, *others)

    monkeypatch.setattr(improvement, "_look_along", noted)
    answers = iter((True, True))
    improvement.run(lambda: next(answers, False))  # one line may begin, and be looked along once
    assert len(looks) == 1
    monkeypatch.setattr("solvers.chain.improvement.LINES", 0)  # lines alone, no sweep
    improvement.run()
    assert improvement.value_ms == pytest.approx(search.run().value_ms)


def test_who_improves_is_asked_often_whether_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are counted, of looks along a line and of sweeps: how long one takes depends on the network."""
    graph, deployment = random_dag(2, 60, 0.05), Deployment(5, 1)
    steps_since, most = [0], [0]
    search = ThresholdSearch.run

    def counted(self: ThresholdSearch, max_bytes: int, max_steps: int | None = None) -> int:
        before = self.num_steps
        outcome = search(self, max_bytes, max_steps)
        steps_since[0] += self.num_steps - before
        most[0] = max(most[0], steps_since[0])
        return outcome

    looks = iter(range(400))

    def goes_on() -> bool:
        steps_since[0] = 0
        return next(looks, None) is not None

    monkeypatch.setattr(ThresholdSearch, "run", counted)
    monkeypatch.setattr("solvers.chain.improvement.STEPS_BETWEEN_LOOKS", 5_000)
    contraction = contract(graph, Family.CHAIN, deployment)
    start = start_of(graph, contraction, deployment, 1)
    ChainImprovement(ChainSearch(graph, contraction, deployment), start).run(goes_on)
    assert 5_000 < most[0] < 3 * LOOK_EVERY + 5_000
    assert next(looks, None) is None
