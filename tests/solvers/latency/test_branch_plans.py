"""Plans of whole branches: where branches are, and that plans keep the rules but for memory."""

from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from solvers.latency.branches import _joints, _widest, branch_splits
from solvers.model.costs import Objective, single_sample_latency
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Family, check_split
from solvers.problem.contraction import contract
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.graphs import class_deployments, small_graphs


def branches(lengths: list[int], *, is_joined: bool = True) -> DnnGraph:
    """Return branches of nodes of 1 ms, all between a first and a last node if they are joined."""
    last = 1 + sum(lengths)
    edges: list[tuple[int, int]] = []
    v = 1
    for length in lengths:
        ids = range(v, v + length)
        edges += [*pairwise(ids), *([(0, ids[0]), (ids[-1], last)] if is_joined else [])]
        v += length
    nodes = range(last + 1) if is_joined else range(1, last)
    return DnnGraph(tuple(Node(n, 1.0, 100.0) for n in nodes), tuple(Edge(*ends) for ends in edges))


def test_branches_are_shared_out_evenly() -> None:
    """A first node, 12 nodes on each of two accelerators, and a last one."""
    graph, deployment = branches([5, 4, 3, 5, 4, 3]), Deployment(4)
    assert (
        min(single_sample_latency(graph, deployment, split) or 99.0 for split in branch_splits(graph, deployment)) == 14
    )
    result = solve(graph, deployment, objective=Objective.LATENCY, time_limit_s=1.0)  # a proof takes far longer
    assert result.value_ms == pytest.approx(14.0)


def test_a_faster_accelerator_has_more_of_them() -> None:
    graph = branches([2] * 9, is_joined=False)
    deployment = Deployment.of_classes((DeviceClass("fast", 1, 2.0), DeviceClass("slow", 1, 1.0)), 0)
    (split,) = branch_splits(graph, deployment)
    assert [len(nodes) for nodes in split.accelerators] == [12, 6]


def test_without_branches_there_is_none() -> None:
    path = DnnGraph(tuple(Node(v, 1.0, 9.0) for v in range(4)), tuple(Edge(v, v + 1) for v in range(3)))
    assert list(branch_splits(path, Deployment(3))) == []
    assert list(branch_splits(branches([2, 2]), Deployment(1))) == []


@given(small_graphs(backward=False, colocation=False), class_deployments() | st.none())
@examples(200)
def test_plans_keep_every_rule_but_memory(instance: tuple[DnnGraph, Deployment], classes: Deployment | None) -> None:
    graph, deployment = instance if classes is None else (instance[0], classes)
    plans = list(branch_splits(graph, deployment))
    event("some" if plans else "none")
    for split in plans:
        assert all("memory" in one or "holds" in one for one in map(str, check_split(graph, deployment, split)))
        assert single_sample_latency(graph, deployment, split) is not None


@given(small_graphs(max_nodes=9, backward=False, colocation=False, unsupported=False))
@examples(200)
def test_joints_are_comparable_to_all_and_branches_to_none_of_another(instance: tuple[DnnGraph, Deployment]) -> None:
    blocks = contract(instance[0], Family.CHAIN, Deployment(2), join_idle=False)
    graph = nx.DiGraph(blocks.edges)
    graph.add_nodes_from(range(blocks.num_blocks))
    around = {b: nx.ancestors(graph, b) | nx.descendants(graph, b) for b in graph}
    assert _joints(blocks) == [b for b in sorted(graph) if len(around[b]) == blocks.num_blocks - 1]
    begin, end, found = _widest(blocks)
    assert sorted(b for branch in found for b in branch) == list(range(begin, end))
    branch_of = {b: i for i, branch in enumerate(found) for b in branch}
    assert all(branch_of[a] == branch_of[b] for a, b in blocks.edges if a in branch_of and b in branch_of)
