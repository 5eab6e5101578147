"""The chain that takes no search: it keeps the rules of chains, and its stages are as even as one line allows."""

import math
from itertools import combinations_with_replacement, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from solvers.chain import label_search, run
from solvers.chain.even_chain import depth_first_order, even_chain
from solvers.chain.max_load import ChainSearch
from solvers.chain.stage_search import VariantSearch
from solvers.model.deployment import Communication, Deployment, Replication
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import SolveStatus
from solvers.model.split import Family, Split, check_split
from solvers.problem.accelerator_kinds import accelerator_kinds
from solvers.problem.contraction import Contraction, contract
from solvers.problem.solving import UNSEARCHED
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.graphs import class_deployments, random_dag, small_graphs

PLAIN, OVERLAPPED = Deployment(3), Deployment(3, communication=Communication.OVERLAPPED)


def longest_ms(
    graph: DnnGraph, contraction: Contraction, deployment: Deployment, stages: dict[int, list[int]]
) -> float:
    """Return the compute time of the longest of these stages by device, infinite where one does not fit."""
    kind_of = {d: kind for kind in accelerator_kinds(graph, deployment) for d in kind.devices}
    longest = 0.0
    for d, blocks in stages.items():
        ms = kind_of[d].block_ms(contraction) if d in kind_of else contraction.cpu_ms
        limit = kind_of[d].memory_limit_bytes if d in kind_of else math.inf
        fits = contraction.memory_bytes[blocks].sum() <= limit
        longest = max(longest, float(ms[blocks].sum()) if fits else math.inf)
    return longest


def best_of_the_line(graph: DnnGraph, contraction: Contraction, deployment: Deployment) -> float:
    """Return the least that `longest_ms` is for any cuts of the line, accelerators first or CPUs first."""
    n = contraction.num_blocks
    accelerators = [d for kind in accelerator_kinds(graph, deployment) for d in kind.devices]
    cpus = list(range(deployment.num_accelerators, deployment.num_devices))
    return min(
        longest_ms(
            graph,
            contraction,
            deployment,
            {d: list(range(*ends)) for d, ends in zip(order, pairwise((0, *cuts, n)), strict=True)},
        )
        for order in (accelerators + cpus, cpus + accelerators)
        for cuts in combinations_with_replacement(range(n + 1), len(order) - 1)
    )


def require_chain(
    graph: DnnGraph, contraction: Contraction, deployment: Deployment, device_of_block: dict[int, int]
) -> None:
    split = Split.from_device_of(contraction.device_of(device_of_block), deployment)
    assert not check_split(graph, deployment, split, Family.CHAIN)


@given(small_graphs(), class_deployments() | st.none())
@examples(150)
def test_stages_along_the_depth_first_order_are_a_chain(
    instance: tuple[DnnGraph, Deployment], classes: Deployment | None
) -> None:
    graph, deployment = instance if classes is None else (instance[0], classes)
    contraction = contract(graph, Family.CHAIN, deployment)
    order = depth_first_order(contraction)
    assert sorted(order.tolist()) == list(range(contraction.num_blocks))
    place = {b: i for i, b in enumerate(order.tolist())}
    assert all(place[source] < place[target] for source, target in contraction.edges)
    device_of_block = even_chain(graph, contraction, deployment, order)
    if device_of_block is not None:
        require_chain(graph, contraction, deployment, device_of_block)


def test_what_is_numbered_across_its_branches_is_cut_along_them() -> None:
    """Two branches of four nodes each, numbered in turn, and what joins them; inputs come right before their reader."""
    branches = [(v, v + 2) for v in range(6)] + [(6, 8), (7, 8), (9, 8)]
    graph = DnnGraph(tuple(Node(v, 1.0, 1.0) for v in range(10)), tuple(Edge(*ends) for ends in branches))
    contraction = contract(graph, Family.CHAIN, Deployment(2))
    order = [contraction.members[b][0] for b in depth_first_order(contraction).tolist()]
    place = {v: i for i, v in enumerate(order)}
    assert order[-1] == 8
    assert [place[v] - place[v - 2] for v in range(2, 8)] == [1] * 6


@given(small_graphs(), class_deployments() | st.none())
@examples(150)
def test_no_cuts_of_the_line_make_a_shorter_longest_stage(
    instance: tuple[DnnGraph, Deployment], classes: Deployment | None
) -> None:
    graph, deployment = instance if classes is None else (instance[0], classes)
    contraction = contract(graph, Family.CHAIN, deployment)
    best_ms = best_of_the_line(graph, contraction, deployment)
    device_of_block = even_chain(graph, contraction, deployment, np.arange(contraction.num_blocks, dtype=np.int32))
    event("there is one" if device_of_block else "there is none")
    assert (device_of_block is None) == math.isinf(best_ms)
    if device_of_block is None:
        return
    stages: dict[int, list[int]] = {}
    for b, d in device_of_block.items():
        stages.setdefault(d, []).append(b)
    assert longest_ms(graph, contraction, deployment, stages) == pytest.approx(best_ms)
    require_chain(graph, contraction, deployment, device_of_block)


@pytest.mark.parametrize("deployment", [Deployment(3), OVERLAPPED, Deployment(3, replication=Replication(2, 4.0))])
def test_where_no_search_has_room_there_still_is_a_plan(
    monkeypatch: pytest.MonkeyPatch, deployment: Deployment
) -> None:
    monkeypatch.setattr(label_search, "FIRST_ROWS", 1)
    further = "" if deployment.replication else "; method auto goes on with others"
    result = solve(random_dag(3, num_nodes=24, edge_probability=0.05), deployment, method="dp", table_bytes=1)
    assert result.status is SolveStatus.FEASIBLE
    assert result.value_ms is not None
    assert result.lower_bound_ms is not None
    assert result.lower_bound_ms <= result.value_ms
    assert result.message.endswith(f"(solver memory, --solver-memory on the command line){further}. {UNSEARCHED}")


@pytest.mark.parametrize(("deployment", "kind"), [(OVERLAPPED, VariantSearch), (PLAIN, ChainSearch)])
def test_many_blocks_have_a_plan_before_their_search(
    deployment: Deployment, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not end a search that proves the optimum, and is the answer of one that finds nothing."""
    graph = random_dag(5, num_nodes=20)
    optimum = solve(graph, deployment)
    monkeypatch.setattr(run, "MANY_BLOCKS", 1)
    result = solve(graph, deployment)
    assert result.status is SolveStatus.OPTIMAL
    assert result.value_ms == pytest.approx(optimum.value_ms)
    known: list[float | None] = []

    def search(this: Any) -> None:
        this.phase = "linearised DP"
        while not this._stop[0]:
            pass

    monkeypatch.setattr(kind, "run", search)
    options: Any = {"method": "dp", "time_limit_s": 1.0, "on_progress": lambda p: known.append(p.incumbent_ms)}
    last = solve(graph, deployment, **options)
    assert last.message == f"The DP did not prove the optimum in time; method auto goes on with others. {UNSEARCHED}"
    assert known[-1] is not None
    assert known.index(known[-1]) <= 2
