"""Parts of a graph: what is known of nodes left out holds wherever they are, and mixtures are made of whole paths."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from solvers.latency.arrays import IntArray
from solvers.latency.bound import latency_bounds, node_times
from solvers.latency.cut_plans import plans_of_cut
from solvers.latency.cuts import Cut, PartCuts
from solvers.latency.left_out import chains_between, nodes_between, tensors_among
from solvers.latency.mixture import UNITS, PathMixture
from solvers.latency.parts import GraphOrder, nearest_nodes
from solvers.model.costs import single_sample_latency
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Split, check_split
from solvers.problem.accelerator_kinds import accelerator_kinds
from tests.support.agreement import Instance
from tests.support.examples import examples
from tests.support.graphs import chain, dag, small_graphs
from tests.support.reference import best_latency


def kept_of(graph: DnnGraph, data: st.DataObject) -> list[int]:
    """Draw some of a graph's nodes, in topological order."""
    chosen = data.draw(st.sets(st.sampled_from(sorted(graph.node_by_id)), min_size=1))
    return [v for v in graph.topological_order if v in chosen]


def lists_of(offsets: IntArray, items: IntArray) -> list[set[int]]:
    return [set(items[a:b].tolist()) for a, b in pairwise(offsets)]


@given(small_graphs(max_nodes=8, backward=False, colocation=False), st.data())
@examples(300)
def test_tensors_among_kept_nodes_cost_no_task_more_than_its_own(instance: Instance, data: st.DataObject) -> None:
    graph, _ = instance
    kept = kept_of(graph, data)
    row = {v: i for i, v in enumerate(kept)}
    tensors = tensors_among(graph, kept, row)
    task_of = {v: data.draw(st.integers(0, 2), label=f"task of {v}") for v in graph.node_by_id}
    event(f"left out: {len(row) < len(task_of)}, tensors: {len(tensors)}")
    for task in range(3):
        members = {v for v, t in task_of.items() if t == task}
        own_ms = sum(
            tensor.transfer_ms
            for u in task_of
            for tensor in graph.tensors_of[u]
            if 0 < len(members & {u, *tensor.readers}) < len({u, *tensor.readers})
        )
        rows = {row[v] for v in members if v in row}
        assert sum(ms for ends, ms in tensors if rows & ends and ends - rows) <= own_ms + 1e-9


def test_tensors_go_on_through_nodes_left_out() -> None:
    # 1 -> 2 -> 3, with less behind 2 than before it.
    graph = dag((1, 1, 1), ((1, 2), (2, 3)), transfer_ms=(3, 2, 0))
    assert tensors_among(graph, [1, 3], {1: 0, 3: 1}) == [(frozenset({0, 1}), 2.0)]
    # 1 and 2 are added in 3, which 4 reads: its 4 ms are shared as 1 to 3, of the 1 and 3 ms of its inputs.
    graph = dag((1, 1, 1, 1), ((1, 3), (2, 3), (3, 4)), transfer_ms=(1, 3, 4, 0))
    found = dict(tensors_among(graph, [1, 2, 4], {1: 0, 2: 1, 4: 2}))
    assert found == {frozenset({0, 2}): 1.0, frozenset({1, 2}): 3.0}
    # Two readers of one that is left out: whoever holds it, each of their tasks pays.
    graph = dag((1, 1, 1), ((1, 2), (1, 3)), transfer_ms=(5, 0, 0))
    assert tensors_among(graph, [2, 3], {2: 0, 3: 1}) == [(frozenset({0, 1}), 5.0)]


def test_many_tensors_through_many_nodes_stay_few() -> None:
    # Each of 16 layers reads all before it, and only first and last are kept.
    count = 16
    nodes = tuple(Node(v, 1.0, 4.0, transfer_ms=1.0) for v in range(count))
    graph = DnnGraph(nodes, tuple(Edge(u, v) for v in range(count) for u in range(v)))
    found = tensors_among(graph, [0, count - 1], {0: 0, count - 1: 1})
    assert [ends for ends, _ in found] == [frozenset({0, 1})]
    assert 0 < found[0][1] <= 1.0 + 1e-9


@given(small_graphs(max_nodes=8, backward=False, colocation=False), st.data())
@examples(200)
def test_nearest_kept_nodes_are_those_with_none_between(instance: Instance, data: st.DataObject) -> None:
    graph, _ = instance
    order, kept = GraphOrder(graph), kept_of(graph, data)
    left_out = [v for v in graph.topological_order if v not in kept]

    def precedes(u: int, v: int) -> bool:
        return bool(order.before[v] >> order.place[u] & 1)

    start, items, later_start, later_items = nodes_between(order, kept, left_out)
    for i, v in enumerate(kept):
        before = {
            x
            for x, u in enumerate(left_out)
            if precedes(u, v) and not any(precedes(u, w) and precedes(w, v) for w in kept)
        }
        after = {
            x
            for x, u in enumerate(left_out)
            if precedes(v, u) and not any(precedes(v, w) and precedes(w, u) for w in kept)
        }
        assert lists_of(start, items)[i] == before
        assert lists_of(later_start, later_items)[i] == after


def test_a_path_takes_the_time_of_the_chain_between_its_nodes() -> None:
    # 1 -> {2 -> 3, 4} -> 5, and 4 -> 6 as well: what stands between 1 and 5 alone is the chain 2 -> 3.
    graph = dag((1, 2, 3, 7, 1, 1), ((1, 2), (2, 3), (3, 5), (1, 4), (4, 5), (4, 6)))
    order, kept, left_out = GraphOrder(graph), [1, 5, 6], [2, 3, 4]
    left_out = [v for v in order.node_at if v in left_out]
    fastest_ms = [graph.node_by_id[v].accelerator_ms for v in left_out]
    kept = [v for v in order.node_at if v in kept]
    between = nodes_between(order, kept, left_out)
    rows = kept.index(1), kept.index(5)
    assert chains_between(order, left_out, fastest_ms, between) == {rows: 5.0}


@pytest.mark.parametrize("num_cpus", [0, 1])
@pytest.mark.parametrize("memory", [2.0, 3.0, None])
def test_the_cuts_of_a_bound_are_plans(memory: float | None, num_cpus: int) -> None:
    graph = chain((2, 1, 3, 1, 2), transfer_ms=(1, 3, 0.5, 2, 0))
    deployment = Deployment(3, num_cpus, memory)
    plans: list[Split] = []
    bound = max(latency_bounds(graph, deployment, on_plan=plans.append))
    values = [single_sample_latency(graph, deployment, p) for p in plans if not check_split(graph, deployment, p)]
    # The bound of a path is its optimum, and so are its cuts.
    assert (
        min(value for value in values if value is not None) == pytest.approx(bound) == best_latency(graph, deployment)
    )


def test_a_cut_of_more_tasks_than_accelerators_leaves_those_to_cpus_that_save_least() -> None:
    graph = chain((2, 1, 3), transfer_ms=0)
    order = GraphOrder(graph)
    cut = Cut(np.arange(3), (1, 1, 1), (2.0, 1.0, 3.0), 3.0)
    for num_cpus, expected in ((1, [({3}, {1}, {2})]), (0, [])):
        deployment = Deployment(2, num_cpus)
        kinds = accelerator_kinds(graph, deployment)
        part = PartCuts(order, deployment, kinds, [node_times(graph, deployment)], [1, 2, 3], 100)
        plans = [(*split.accelerators, *split.cpus) for split in plans_of_cut(part, cut)]
        assert [tuple(map(set, plan)) for plan in plans][:1] == expected


def mixture_of(
    graph: DnnGraph, start: tuple[int, ...] = (0,), chain_ms: dict[tuple[int, int], float] | None = None
) -> PathMixture:
    order = GraphOrder(graph)
    return PathMixture(nearest_nodes(order.above(list(order.node_at))), chain_ms or {}, {start: 3})


def test_the_best_mixture_of_two_branches_is_half_of_each() -> None:
    graph = dag((0, 1, 1, 0), ((1, 2), (1, 3), (2, 4), (3, 4)))
    mixture = mixture_of(graph)
    task_of = np.arange(4)
    mixture.add_cut(task_of, (0.0, 4.0, 0.0, 0.0), 0.0)
    assert mixture.step(mixture.flow) == pytest.approx(4.0)
    mixture.add_cut(task_of, (0.0, 0.0, 4.0, 0.0), 0.0)
    for _ in range(40):
        most_ms = mixture.step(mixture.flow)
    assert most_ms == pytest.approx(2.0)
    assert {path: n / UNITS for path, n in mixture.paths().items()} == pytest.approx(
        {(0, 1, 3): 0.5, (0, 2, 3): 0.5}, abs=1e-3
    )


def test_a_chain_counts_where_its_ends_are_in_different_tasks() -> None:
    graph = dag((1, 1), ((1, 2),))
    for task_of, expected in (((0, 1), 2 + 3 + 10), ((0, 0), 2)):
        mixture = mixture_of(graph, chain_ms={(0, 1): 10.0})
        mixture.add_cut(np.array(task_of), (2.0, 3.0), 0.0)
        assert mixture.step(mixture.flow) == pytest.approx(expected)


@given(small_graphs(max_nodes=8, backward=False), st.data())
@examples(100)
def test_a_mixture_is_made_of_whole_paths(instance: Instance, data: st.DataObject) -> None:
    graph, _ = instance
    order = GraphOrder(graph)
    first = data.draw(st.integers(0, len(graph.nodes) - 1))
    mixture = mixture_of(graph, (first,))
    paths = mixture.paths()
    assert all(first in path for path in paths)
    assert math.isclose(sum(paths.values()), UNITS, rel_tol=0.01)
    for path in paths:
        nodes = [order.node_at[i] for i in path]
        assert not order.before[nodes[0]]
        assert not order.after[nodes[-1]]
        assert all(order.before[v] >> order.place[u] & 1 for u, v in pairwise(nodes))
