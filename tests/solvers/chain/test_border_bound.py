"""What borders cost: classes, their best ideals and what is left to do, against all ideals and all chains."""

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.chain.border_bound import CPU, END, NEAREST, SLOPES, START, BorderBound
from solvers.chain.label_kernel import FINISHED, STOPPED
from solvers.chain.label_search import ThresholdSearch, flat_edges
from solvers.chain.max_load import ChainSearch
from solvers.chain.stage_search import VariantSearch
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Family, Split
from solvers.problem.contraction import contract
from tests.support.examples import examples
from tests.support.graphs import dag, random_dag, random_training_graph

NEVER = np.zeros(1, np.uint8)
Ideal = frozenset[int]


class Chains:
    """All ideals of a small problem, and what its stages take, from their definitions."""

    def __init__(self, graph: DnnGraph, deployment: Deployment) -> None:
        """Prepare the bound, too."""
        self.contraction = contract(graph, Family.CHAIN, deployment)
        self.search = ChainSearch(graph, self.contraction, deployment)
        self.problem = self.search.flattened(flat_edges(self.contraction))
        self.mixes = self.search._mixes
        self.bound = self.search.border_bound()
        assert self.bound.prepare(NEVER)
        n = self.contraction.num_blocks
        self.ideals = {Ideal()}
        waiting = [Ideal()]
        while waiting:
            ideal = waiting.pop()
            for b in range(n):
                grown = ideal | {b}
                if grown not in self.ideals and all(a in ideal for a, c in self.contraction.edges if c == b):
                    self.ideals.add(grown)
                    waiting.append(grown)
        self.all = Ideal(range(n))

    def class_of(self, ideal: Ideal) -> int:
        """Return how many gates an ideal holds."""
        return sum(gate in ideal for gate in self.bound.gates)

    def work(self, blocks: Ideal) -> float:
        """Return the work of blocks."""
        return float(self.problem.work[list(blocks)].sum())

    def sent(self, ideal: Ideal, steps: int) -> float:
        """Return what a stage surely sends that ends with an ideal and began so many classes before."""
        t, total = self.class_of(ideal), 0.0
        if steps == CPU:
            return 0.0
        for ends, weight in self.bound._nets:
            crosses = bool(ideal & set(ends)) and not ideal >= set(ends)
            is_inside = all(self.bound.open_from[b] > max(t - steps, 0) for b in ends) if steps <= NEAREST else False
            total += weight * (crosses and (is_inside or steps == START))
        return total

    def read(self, ideal: Ideal, steps: int) -> float:
        """Return what a stage surely reads that begins with an ideal and goes so many classes on."""
        t, total = self.class_of(ideal), 0.0
        if steps == CPU:
            return 0.0
        for ends, weight in self.bound._nets:
            outside = set(ends) - ideal
            crosses = bool(ideal & set(ends)) and bool(outside)
            surely = min(t + steps, self.bound.num_classes - 1)
            is_read = any(self.bound.held_from[b] <= surely for b in outside) if steps <= NEAREST else False
            total += weight * (crosses and (is_read or steps == END))
        return total

    def load(self, begin: Ideal, end: Ideal, kind: int) -> float:
        """Return what the stage between two ideals takes on a kind of device, in ms."""
        stage = end - begin
        total = float(self.problem.time_ms[kind, list(stage)].sum())
        for hyperedge in self.contraction.hyperedges:
            cut = bool(stage & set(hyperedge.blocks)) and not stage >= set(hyperedge.blocks)
            total += self.mixes.link_factor[kind] * hyperedge.weight_ms * cut
        return total

    def so_far(self, begin: Ideal, ideal: Ideal, kind: int) -> float:
        """Return what the stage has cost, in ms, when it has come to an ideal: what it sends is not paid yet."""
        stage = ideal - begin
        total = float(self.problem.time_ms[kind, list(stage)].sum())
        for hyperedge in self.contraction.hyperedges:
            reads = bool(begin & set(hyperedge.blocks)) and bool(stage & set(hyperedge.blocks))
            total += self.mixes.link_factor[kind] * hyperedge.weight_ms * reads
        return total

    def stages_within(self, threshold_ms: float) -> Iterator[tuple[Ideal, Ideal, int, int]]:
        """Yield begin, end, kind and the state behind it, of all stages of chains within a threshold."""
        mixes = self.mixes
        can_end = {(self.all, s) for s in range(mixes.used.shape[0])}
        by_size = sorted(self.ideals, key=len, reverse=True)
        for begin in by_size:
            for end in by_size:
                if not begin < end:
                    continue
                for kind in range(mixes.available.size):
                    if self.load(begin, end, kind) > threshold_ms * (1 + 1e-12):
                        continue
                    for s in np.flatnonzero(mixes.used[:, kind] < mixes.available[kind]).tolist():
                        behind = s + int(mixes.stride[kind])
                        if (end, behind) in can_end:
                            can_end.add((begin, s))
                            yield begin, end, kind, behind


def problem_of(seed: int, *, classes: bool = False) -> tuple[DnnGraph, Deployment]:
    """Draw a graph and devices."""
    rng = random.Random(seed)  # noqa: S311
    graph = random_training_graph(seed, 4, 0.5) if seed % 4 == 0 else random_dag(seed, rng.randrange(5, 10), 0.35)
    if classes:
        types = (DeviceClass("a", 1, 1.0, None), DeviceClass("b", rng.randrange(1, 3), 0.5, None, link_speed=2.0))
        return graph, Deployment.of_classes(types, seed % 2)
    return graph, Deployment(rng.randrange(1, 4), rng.randrange(3))


@pytest.mark.parametrize("seed", range(10))
def test_classes_say_what_their_ideals_hold(seed: int) -> None:
    chains = Chains(*problem_of(seed))
    bound = chains.bound
    for ideal in chains.ideals:
        t = chains.class_of(ideal)
        assert {bound.gates[i] for i in range(t)} <= ideal
        assert {b for b in chains.all if bound.held_from[b] <= t} <= ideal
        assert not {b for b in chains.all if bound.open_from[b] > t} & ideal


@pytest.mark.parametrize("seed", range(10))
def test_the_best_ideal_of_each_class_is_that_of_enumeration(seed: int) -> None:
    chains = Chains(*problem_of(seed))
    best = np.full_like(chains.bound._values, -np.inf)
    for ideal in chains.ideals:
        t, work = chains.class_of(ideal), chains.work(ideal)
        sent = np.array([chains.sent(ideal, i) for i in range(CPU + 1)])
        read = np.array([chains.read(ideal, d) for d in range(CPU + 1)])
        value = (1 - SLOPES) * work - read[None, :, None] - SLOPES * sent[:, None, None]
        best[t] = np.maximum(best[t], value)
    assert chains.bound._values == pytest.approx(best, abs=1e-9 * chains.work(chains.all))


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_no_stage_takes_less_than_is_sure(seed: int, classes: bool) -> None:
    chains = Chains(*problem_of(seed, classes=classes))
    for begin in chains.ideals:
        for end in chains.ideals:
            steps = chains.class_of(end) - chains.class_of(begin)
            if not begin < end:
                continue
            sent = chains.sent(end, min(steps, NEAREST) if begin else START)
            read = chains.read(begin, min(steps, NEAREST) if end < chains.all else END)
            for kind in np.flatnonzero(chains.mixes.available[:-1]).tolist():
                done = chains.load(begin, end, kind) * chains.mixes.rate[kind]
                assert chains.work(end) - chains.work(begin) + sent + read <= done * (1 + 1e-12)


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_every_ideal_of_a_chain_within_the_threshold_has_room(seed: int, classes: bool) -> None:
    """At its borders and wherever a stage is under way, for several thresholds."""
    chains = Chains(*problem_of(seed, classes=classes))
    optimum = chains.search.run().value_ms
    whole = chains.work(chains.all)
    num_stages = 0
    for threshold in (optimum, 1.4 * optimum):
        room = chains.bound.room(threshold)
        for begin, end, kind, behind in chains.stages_within(threshold):
            num_stages += 1
            t, state = chains.class_of(begin), behind - int(chains.mixes.stride[kind])
            reads = np.array([chains.read(begin, d) for d in range(CPU + 1)])
            assert (whole - chains.work(begin) + reads <= room.at_border[state, t] + 1e-9 * whole).any()
            if kind == chains.mixes.rate.size:
                continue
            for ideal in chains.ideals:
                if begin <= ideal <= end:
                    steps = min(chains.class_of(ideal) - t, NEAREST) if begin else START
                    left = (threshold - chains.so_far(begin, ideal, kind)) * chains.mixes.rate[kind]
                    reach = room.under_way[behind, chains.class_of(ideal), steps] + left
                    assert whole - chains.work(ideal) <= reach + 1e-9 * whole
    assert num_stages > 0


@given(st.integers(0, 10**6), st.booleans())
@examples(150)
def test_no_bound_exceeds_the_optimum(seed: int, classes: bool) -> None:
    graph, deployment = problem_of(seed, classes=classes)
    contraction = contract(graph, Family.CHAIN, deployment)
    # The other DP shares no code with this bound.
    optimum = VariantSearch(graph, contraction, deployment, Objective.THROUGHPUT)
    optimum.run()
    search = ChainSearch(graph, contraction, deployment)
    bound = search.border_bound()
    assert bound.prepare(NEVER)
    last = 0.0
    for threshold in bound.thresholds(0.0, 2 * optimum.value_ms, NEVER):
        assert last < threshold <= optimum.value_ms
        last = threshold


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([1.0, 1.02, 1.3]))
@examples(150)
def test_searches_that_know_borders_find_what_others_find(seed: int, classes: bool, factor: float) -> None:
    graph, deployment = problem_of(seed, classes=classes)
    contraction = contract(graph, Family.CHAIN, deployment)
    search = ChainSearch(graph, contraction, deployment)
    optimum = search.run().value_ms
    bound = search.border_bound()
    assert bound.prepare(NEVER)
    problem = search.flattened(flat_edges(contraction))
    for threshold, floor in ((factor * optimum, 0.0), (optimum * (1 - 1e-6), 0.0)):
        without = search.threshold_search(problem, threshold, floor)
        knowing = search.threshold_search(problem, threshold, floor, bound)
        assert without.run(2**26) == knowing.run(2**26) == FINISHED
        found = knowing.stages()
        assert (found is None) == (without.stages() is None) == (threshold < optimum)
        if found is not None:
            assert search.value_of(search.devices_of(found)) == pytest.approx(optimum, rel=1e-6)
        assert knowing.num_ideals <= without.num_ideals


def test_transfers_between_wide_layers_count() -> None:
    """Two layers of four branches between single nodes: whatever a border cuts in them, each branch crosses it."""
    edges = [(1, v) for v in range(2, 6)] + [(v, v + 4) for v in range(2, 6)] + [(v, 10) for v in range(6, 10)]
    graph, deployment = dag([1.0] * 10, edges, transfer_ms=1.0), Deployment(2)
    search = ChainSearch(graph, contract(graph, Family.CHAIN, deployment), deployment)
    bound = search.border_bound()
    assert bound.prepare(NEVER)
    *_, best = bound.thresholds(search.lower_bound_ms, 20.0, NEVER)
    optimum = search.run().value_ms
    assert search.lower_bound_ms == pytest.approx(optimum)
    assert 5.0 < best <= optimum  # 5 ms is half of the work


def test_it_goes_on_where_it_was_stopped() -> None:
    graph, deployment = random_dag(2, 12, 0.3), Deployment(3, 1)
    search = ChainSearch(graph, contract(graph, Family.CHAIN, deployment), deployment)
    whole, parts = search.border_bound(), search.border_bound()
    assert whole.prepare(NEVER)
    stop = np.ones(1, np.uint8)
    assert not parts.prepare(stop)
    assert not list(whole.thresholds(0.0, 100.0, stop))
    assert parts.prepare(NEVER)
    assert np.array_equal(parts._values, whole._values)


def test_every_flow_looks_whether_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class of very many ideals must not keep a search from ending."""
    from solvers.chain import border_flow

    flows: list[int] = []
    stop = np.zeros(1, np.uint8)

    def counted(*network: object) -> float:
        flows.append(1)
        stop[0] = len(flows) >= 3
        return 0.0

    monkeypatch.setattr(border_flow, "_max_flow", counted)
    graph, deployment = random_dag(2, 12, 0.3), Deployment(3, 1)
    search = ChainSearch(graph, contract(graph, Family.CHAIN, deployment), deployment)
    monkeypatch.setattr("solvers.chain.border_bound.border_values", border_flow.border_values.py_func)
    assert not search.border_bound().prepare(stop)
    assert len(flows) == 3


def test_offers_do_not_put_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each offer begins a search anew; the steps until it is time for the bound are those of all of them."""
    monkeypatch.setattr("solvers.chain.max_load.SLOW_FACTOR", 0)
    monkeypatch.setattr("solvers.chain.max_load.BORDERS_AFTER", 100_000)
    monkeypatch.setattr("solvers.chain.max_load.NEAR", 0.0)
    graph, deployment = random_dag(11, 20, 0.12), Deployment(3)
    search = ChainSearch(graph, contract(graph, Family.CHAIN, deployment), deployment)
    most: list[int] = []
    steps: list[int] = []
    run = ThresholdSearch.run

    def interrupted(one: ThresholdSearch, max_bytes: int, max_steps: int | None = None) -> int:
        outcome = run(one, max_bytes, max_steps)
        if search.phase.startswith("DP") and max_steps and len(most) < 3 and search.device_of_block is not None:
            most.append(max_steps)
            steps.append(one.num_steps)
            better = Split.from_device_of(search.contraction.device_of(search.device_of_block), deployment)
            search.offer(search.value_ms, better, search.lower_bound_ms * 1.0001)
            return STOPPED
        return outcome

    monkeypatch.setattr(ThresholdSearch, "run", interrupted)
    search.run()
    assert len(most) == 3
    assert [most[0] - most[1], most[1] - most[2]] == steps[:2]


def test_after_an_offer_it_goes_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was computed is kept, and no search comes in between."""
    monkeypatch.setattr("solvers.chain.max_load.SLOW_FACTOR", 0)
    monkeypatch.setattr("solvers.chain.max_load.BORDERS_AFTER", 1)
    monkeypatch.setattr("solvers.chain.max_load.NEAR", 0.0)
    monkeypatch.setattr("solvers.chain.label_kernel.LOOK_EVERY", 1)
    graph, deployment = random_dag(11, 20, 0.12), Deployment(3)
    search = ChainSearch(graph, contract(graph, Family.CHAIN, deployment), deployment)
    course: list[str] = []
    run, fill = ThresholdSearch.run, BorderBound._fill

    def searched(one: ThresholdSearch, max_bytes: int, max_steps: int | None = None) -> int:
        course.append("search")
        return run(one, max_bytes, max_steps)

    def filled(bound: BorderBound, t: int, stop: np.ndarray) -> bool:
        course.append("bound")
        if course.count("bound") <= 2:
            assert search.device_of_block is not None
            plan = Split.from_device_of(search.contraction.device_of(search.device_of_block), deployment)
            search.offer(search.value_ms, plan, search.lower_bound_ms * 1.0001)
        return fill(bound, t, stop)

    monkeypatch.setattr(ThresholdSearch, "run", searched)
    monkeypatch.setattr(BorderBound, "_fill", filled)
    answer = search.run()
    first = course.index("bound")
    bounding = course[first : first + course.count("bound")]
    assert set(bounding) == {"bound"}
    assert len(bounding) == search.border_bound().num_classes + 2
    assert answer.lower_bound_ms == pytest.approx(answer.value_ms, rel=1e-6)


def test_a_search_uses_it_once_it_is_no_longer_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solvers.chain.max_load.SLOW_FACTOR", 0)
    monkeypatch.setattr("solvers.chain.max_load.BORDERS_AFTER", 1)
    monkeypatch.setattr("solvers.chain.label_kernel.LOOK_EVERY", 1)
    graph, deployment = random_dag(11, 20, 0.12), Deployment(3)
    contraction = contract(graph, Family.CHAIN, deployment)
    made: list[BorderBound] = []
    make = ChainSearch.border_bound

    def remembered(search: ChainSearch) -> BorderBound:
        made.append(make(search))
        return made[-1]

    monkeypatch.setattr(ChainSearch, "border_bound", remembered)
    answer = ChainSearch(graph, contraction, deployment).run()
    assert len(made) == 1
    assert answer.lower_bound_ms == pytest.approx(answer.value_ms, rel=1e-6)


def test_a_time_that_says_never_hides_no_other_work() -> None:
    """A block of 1e15 ms on accelerators goes to the CPU, with a sixth of the others: sums of work lose these."""
    nodes = (Node(0, 1e15, 1.0), *(Node(v, 0.03, 0.03) for v in range(1, 301)))
    graph, deployment = DnnGraph(nodes, tuple(Edge(v, v + 1) for v in range(300))), Deployment(3, 1)
    chain_ms = (1.0 + 50 * 0.03, 83 * 0.03, 83 * 0.03, 84 * 0.03)
    search = ChainSearch(graph, contract(graph, Family.CHAIN, deployment), deployment)
    bound = search.border_bound()
    assert bound.prepare(NEVER)
    assert max(bound.thresholds(0.0, 4.0, NEVER), default=0.0) <= max(chain_ms) * (1 + 1e-9)
