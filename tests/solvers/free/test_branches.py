"""Proofs by branches: what CPUs can hold, what is true of the splits of a branch, and what only branches prove."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.free import bounds as free_bounds
from solvers.free import branches
from solvers.free.bounds import FreeBounds
from solvers.free.branches import Branch, Pace, block_to_divide_by
from solvers.free.column_generation import DeviceContents
from solvers.free.cpu_share import CpuShare
from solvers.free.merged_blocks import MergedBlocks
from solvers.free.price_search import best_prices
from solvers.model.costs import Objective, objective_value
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Family, Split, check_split
from solvers.problem.contraction import contract
from tests.support.examples import examples
from tests.support.graphs import chain, random_dag, small_graphs
from tests.support.reference import all_splits, best_value

SOME_MS = st.integers(0, 12).map(float)


@st.composite
def shares(draw: st.DrawFn) -> tuple[CpuShare, np.ndarray, float]:
    """Draw the share of CPUs of a few blocks, prices and a threshold."""
    n = draw(st.integers(1, 5))
    cpu_ms = np.array([draw(SOME_MS | st.just(np.inf)) for _ in range(n)])
    settled = [draw(st.sampled_from(["free", "free", "has", "lacks"])) for _ in range(n)]
    has, lacks = (np.array([one == what for one in settled]) for what in ("has", "lacks"))
    share = CpuShare.undivided(draw(st.integers(0, 2)), cpu_ms).settled(has, lacks)
    return share, np.array([draw(st.integers(-4, 8)) / 2 for _ in range(n)]), draw(st.integers(0, 20)) / 2


@given(shares())
@examples(150)
def test_cpus_never_hold_more_than_is_said(drawn: tuple[CpuShare, np.ndarray, float]) -> None:
    share, price, threshold = drawn
    value, part = share.dearest(price, threshold)
    n = len(price)
    # Each block on one of the CPUs, or on none.
    for on in itertools.product(range(share.num_cpus + 1), repeat=n):
        chosen = np.array(on) > 0
        loads = [sum(share.cpu_ms[b] for b in range(n) if on[b] == cpu + 1) for cpu in range(share.num_cpus)]
        if max(loads, default=0.0) > threshold or (share.has & ~chosen).any() or (share.lacks & chosen).any():
            continue
        assert value >= float(price[chosen].sum()) - 1e-9
    if value > -np.inf:
        assert value == pytest.approx(float(part @ price))
        assert ((part >= 0) & (part <= 1)).all()
        assert (part[share.has] == 1).all()
        assert (part[share.lacks] == 0).all()
        held = share.cpu_ms[part > 0] @ part[part > 0]
        assert held <= share.num_cpus * threshold * (1 + 1e-6)


def test_the_last_block_on_the_cpus_is_cut() -> None:
    share = CpuShare.undivided(1, np.array([2.0, 4.0, 1.0]))
    value, part = share.dearest(np.array([4.0, 4.0, 1.5]), 5.0)
    assert part == pytest.approx([1.0, 0.5, 1.0])
    assert value == pytest.approx(7.5)
    settled = share.settled(np.array([False, True, False]), np.array([True, False, False]))
    value, part = settled.dearest(np.array([4.0, -1.0, 1.5]), 5.0)
    assert part == pytest.approx([0.0, 1.0, 1.0])
    assert value == pytest.approx(0.5)
    assert settled.dearest(np.ones(3), 3.9)[0] == -np.inf


@given(small_graphs(max_nodes=5, max_cpus=2), st.data())
@examples(60)
def test_nothing_false_is_proven_of_the_splits_of_a_branch(
    instance: tuple[DnnGraph, Deployment], data: st.DataObject
) -> None:
    """A split whose CPUs have some blocks, and have not some others, belongs to the branch with these."""
    graph, deployment = instance
    some = itertools.islice(all_splits(graph, deployment, alike_in_order=True), 200)
    splits = [split for split in some if not check_split(graph, deployment, split, Family.FREE)]
    if not deployment.num_accelerators or not splits:
        return
    split = data.draw(st.sampled_from(splits))
    load_ms = objective_value(graph, deployment, split, Objective.THROUGHPUT)
    contraction = contract(graph, Family.FREE, deployment)
    device_of = split.device_of()
    is_apart = any(len({device_of[v] for v in ids}) > 1 for ids in contraction.members)
    if load_ms is None or is_apart:
        return
    on_cpus = np.array([device_of[ids[0]] >= deployment.num_accelerators for ids in contraction.members])
    settled = np.array([data.draw(st.booleans()) for _ in on_cpus])
    price = np.random.default_rng(data.draw(st.integers(0, 5))).uniform(-0.2, 1, contraction.num_blocks)
    for search in (DeviceContents.prove, best_prices):
        contents = DeviceContents(contraction, deployment)
        within: DeviceContents = contents.where_cpus(contents.cpus.settled(settled & on_cpus, settled & ~on_cpus))
        found: Any = search(within, load_ms, price, lambda _: True)
        assert found[0] is not True
        assert found[1].ratio <= 1
        assert all(proven < load_ms for proven in within.provable_thresholds(price, -1.0, load_ms))


def raised(graph: DnnGraph, deployment: Deployment, value_ms: float) -> tuple[float, int]:
    """Return what prices prove, with as much time as they like, and the number of branches."""
    bounds = FreeBounds(contract(graph, Family.FREE, deployment), deployment, 0.0)
    looks = iter(range(100_000))
    bounds.raise_by_prices(lambda: value_ms, 0.0, lambda: next(looks, None) is not None, lambda: 1.0)
    return bounds.lower_bound_ms, len(bounds._branches)


def too_much_for_the_cpu() -> DnnGraph:
    """Return three groups of three nodes, 7 ms of CPU time each, which dear tensors tie, and 21 nodes for accelerators.

    Two accelerators and a CPU need 9 ms: that of one group (9 + 12 - 3 = 18 ms for the accelerators), since the CPU
    would take 14 ms for two. If it could have a quarter of a second one, 8.75 ms would do: (18 - 0.25 x 3) / 2 rounds
    up to that, as all nodes take whole quarters.
    """
    groups = tuple(Node(v, 1.0, 7 / 3, transfer_ms=5.0) for v in range(9))
    others = tuple(Node(v, 0.25 if v < 21 else 1.0, 100.0) for v in range(9, 30))
    return DnnGraph((*groups, *others), tuple(Edge(v, v + 1) for v in (0, 1, 3, 4, 6, 7)))


@pytest.mark.parametrize("few_blocks", [0, 128])
def test_branches_prove_what_prices_alone_cannot(few_blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_bounds, "FEW_BLOCKS", few_blocks)
    graph, deployment = too_much_for_the_cpu(), Deployment(2, 1)
    accelerators = (
        frozenset({*range(3, 6), *range(9, 13), *range(21, 26)}),
        frozenset({*range(6, 9), *range(13, 21), *range(26, 30)}),
    )
    plan = Split(accelerators, (frozenset(range(3)),))
    assert objective_value(graph, deployment, plan, Objective.THROUGHPUT) == pytest.approx(9.0)
    bound, count = raised(graph, deployment, 9.0)
    assert count > 1
    assert bound == pytest.approx(9.0, rel=1e-6)
    monkeypatch.setattr(free_bounds, "block_to_divide_by", lambda cpus, on_cpus: None)
    undivided, count = raised(graph, deployment, 9.0)
    assert count == 1
    assert undivided == pytest.approx(8.75, rel=1e-4)


def test_branches_of_a_low_threshold_leave_no_split_out_at_a_higher_one() -> None:
    """At 8.91 ms nodes 0 and 1 are merged, and branches divide by whether the CPU has both; the best plan divides them.

    Its loads are 8.5 ms on the CPU, 1.52 + 7.45 on the slow accelerator, and 6.75 and 6.75 on the fast ones.
    """
    fast, slow = DeviceClass("fast", 2), DeviceClass("slow", 1)
    never = (("slow", 100.0),)
    tied = Node(0, 1.5, 1.5, transfer_ms=7.45, class_ms=never), Node(1, 1.5, 5.6, class_ms=(("slow", 1.52),))
    groups = tuple(Node(v, 3.0, 7.0, class_ms=never) for v in (2, 3))
    pairs = tuple(Node(v, 0.125, 100.0, transfer_ms=0.0 if v % 2 else 8.8, class_ms=never) for v in range(4, 100))
    graph = DnnGraph((*tied, *groups, *pairs), (Edge(0, 1), *(Edge(v, v + 1) for v in range(4, 100, 2))))
    deployment = Deployment.of_classes((fast, slow), 1)
    on_fast = frozenset({2, *range(4, 34)}), frozenset(range(34, 100))
    plan = Split((*on_fast, frozenset({1})), (frozenset({0, 3}),))
    assert objective_value(graph, deployment, plan, Objective.THROUGHPUT) == pytest.approx(8.97)
    bound, _ = raised(graph, deployment, 9.0)
    assert bound <= 8.97


@pytest.mark.parametrize("seed", range(8))
def test_bounds_of_many_branches_are_at_most_the_optimum(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every search of which anything is left open is taken for one that stalls, so blocks are settled at random."""
    monkeypatch.setattr(free_bounds, "FEW_BLOCKS", 0)
    monkeypatch.setattr(free_bounds, "LEAST_PROMISE", 0.0)
    monkeypatch.setattr(free_bounds, "stalls", lambda ratios: True)
    rng = np.random.default_rng(seed)

    def any_block(cpus: CpuShare, on_cpus: np.ndarray) -> int | None:
        free = np.flatnonzero(~cpus.has & ~cpus.lacks)
        return int(rng.choice(free)) if len(free) else None

    monkeypatch.setattr(free_bounds, "block_to_divide_by", any_block)
    graph, deployment = random_dag(seed, 7), Deployment(1 + seed % 2, 1)
    best = best_value(graph, deployment, Family.FREE, Objective.THROUGHPUT)
    assert best is not None
    bound, count = raised(graph, deployment, 1.2 * best)
    assert count > 1
    assert 0.5 * best < bound <= best


def test_a_branch_is_divided_into_those_with_a_block_on_the_cpus_and_those_without() -> None:
    branch = Branch.of_all(np.ones(3), 2.0)
    branch.searched_ms, branch.promise = 3.0, 0.9
    with_it, without = branch.divided(1)
    assert with_it.has.tolist() == without.lacks.tolist() == [False, True, False]
    assert not with_it.lacks.any()
    assert not without.has.any()
    assert [one.promise_at(ms) for one in (with_it, without) for ms in (3.0, 2.9)] == [0.9, 0.0, 0.9, 0.0]


def test_what_is_settled_of_a_part_is_of_the_merged_block() -> None:
    merged = contract(chain([1.0, 2.0], 0.0), Family.FREE, Deployment(1, 1))
    blocks = MergedBlocks(DeviceContents(merged, Deployment(1, 1)), np.array([0, 1, 1], np.int32), 1.0)
    branch = Branch(np.array([False, False, True]), np.array([True, False, False]), np.ones(3), np.ones(3), 0.0)
    cpus = blocks.within(branch).cpus
    assert cpus.has.tolist() == [False, True]
    assert cpus.lacks.tolist() == [True, False]
    assert blocks.summed(np.array([1.0, 2.0, 4.0])).tolist() == [1.0, 6.0]
    assert blocks.shared_out(np.array([1.0, 6.0])).tolist() == [1.0, 3.0, 3.0]


def test_divided_is_by_what_takes_longest_and_is_least_clear() -> None:
    share = CpuShare.undivided(1, np.array([4.0, 4.0, 1.0, np.inf]))
    assert block_to_divide_by(share, np.array([0.1, 0.5, 0.5, 0.0])) == 1
    assert block_to_divide_by(share, np.array([0.3, 1.0, 0.5, 0.0])) == 0
    assert block_to_divide_by(share, np.array([0.0, 1.0, 1.0, 0.0])) is None
    settled = share.settled(np.array([False, True, False, False]), np.array([True, False, False, False]))
    assert block_to_divide_by(settled, np.array([0.5, 0.5, 0.5, 0.5])) == 2


def test_a_pace_that_does_not_get_there_is_seen() -> None:
    left = 100.0
    quick, slow = Pace(lambda: left), Pace(lambda: left)
    answers = []
    for search in range(8):
        left = 100.0 - 5.0 * search
        answers.append((quick.suffices(0.95 + 0.005 * search), slow.suffices(0.95 + 0.0005 * search)))
    assert answers[: branches.LEAST_SEARCHES - 1] == [(True, True)] * (branches.LEAST_SEARCHES - 1)
    assert answers[-1] == (True, False)
